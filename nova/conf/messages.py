"""[messages]: signatures of RPC messages."""
from oslo_config import cfg

GROUP = 'messages'

OPTIONS = [
    cfg.StrOpt('signatures', choices=['off', 'accept', 'require'],
               help='Whether messages over a broker are signed, with the key of the deployment or of the host. '
                    'require: what is not signed is refused. accept: messages are signed, and those without a '
                    'signature are taken and logged: for the time of an upgrade from a release that did not sign. '
                    'Approve the hosts that "nova-manage host keys" lists, then set require. off: nothing is signed '
                    'or verified. Not set: require in a deployment, and on a host, that this release or a later one '
                    'has made, accept in older ones; "nova-status upgrade check" says which. Messages in one process '
                    'need no signature.'),
    cfg.StrOpt('join_token_file', default='',
               help='File with the token that "nova-manage host token" has printed: with it a compute host proves once '
                    'that it belongs here, and finds out the same of the control plane. Empty: an operator approves '
                    'the host with "nova-manage host approve", and the host takes the first key of a deployment that '
                    'it receives.'),
    cfg.IntOpt('host_key_days', default=90, min=0, max=3650,
               help='Days after which a host makes a new key for its messages, without an outage: the one before is '
                    'taken for an hour. Conductors decide it. 0: only when "nova-manage host rotate" requests it.'),
]
