"""[ironic]: the Bare Metal service, where compute_driver is ironic. Further options are those of keystoneauth1."""
from oslo_config import cfg

from nova.conf.clients import keystoneauth

GROUP = 'ironic'

OPTIONS = [
    *keystoneauth.SERVICE,
    cfg.StrOpt('conductor_group', max_length=255,
               help='This nova-compute manages only nodes of this conductor group. Unset: nodes of any group. Two '
                    'nova-compute services must not manage the same nodes.'),
    cfg.StrOpt('shard', max_length=255,
               help='This nova-compute manages only nodes of this shard. Unset: nodes of any shard.'),
    cfg.IntOpt('deploy_timeout', default=3600, min=1, max=86400,
               help='Seconds after which deploying or cleaning a machine fails. Machines need minutes for memory '
                    'tests and for copying images.'),
    cfg.IntOpt('power_timeout', default=300, min=1, max=3600,
               help='Seconds after which a power action, a rescue or an unrescue fails.'),
]
