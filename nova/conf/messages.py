"""[messages]: signatures of RPC messages."""
from oslo_config import cfg

GROUP = 'messages'

OPTIONS = [
    cfg.StrOpt('signatures', choices=['off', 'accept', 'require'],
               help='Whether messages over a broker are signed with the key of the deployment or of the host. '
                    'require: unsigned messages are refused. accept: messages are signed; unsigned ones are '
                    'accepted and logged. Use accept during an upgrade from a release without signatures: approve '
                    'the hosts that "nova-manage host keys" lists, then set require. off: messages are neither '
                    'signed nor verified. Unset: require in deployments and on hosts that were created by this '
                    'release or a later one, accept in older ones; "nova-status upgrade check" shows which '
                    'applies. Messages within one process need no signature.'),
    cfg.StrOpt('join_token_file', default='',
               help='File with the token that "nova-manage host token" prints. With it, a compute host and the '
                    'control plane authenticate each other once. Empty: an operator approves the host with '
                    '"nova-manage host approve", and the host trusts the first deployment key that it receives.'),
    cfg.IntOpt('host_key_days', default=90, min=0, max=3650,
               help='Days after which a host creates a new key for its messages, without an outage: the previous '
                    'key is accepted for one hour. The value on the conductors applies. 0: only when "nova-manage '
                    'host rotate" requests it.'),
]
