"""[ironic]: the Bare Metal service, where compute_driver is ironic. The other options are those of keystoneauth1."""
from oslo_config import cfg

from nova.conf.clients import keystoneauth

GROUP = 'ironic'

OPTIONS = [
    *keystoneauth.SERVICE,
    cfg.StrOpt('conductor_group', max_length=255,
               help='Only nodes of this conductor group are hosts of this nova-compute; unset: of any. Two '
                    'nova-compute must not have the same nodes.'),
    cfg.StrOpt('shard', max_length=255,
               help='Only nodes of this shard are hosts of this nova-compute; unset: of any.'),
    cfg.IntOpt('deploy_timeout', default=3600, min=1, max=86400,
               help='Seconds after which a machine that is still being deployed or cleaned has failed: machines '
                    'test their memory and copy images for minutes.'),
    cfg.IntOpt('power_timeout', default=300, min=1, max=3600,
               help='Seconds after which a change of power, a rescue or its end has failed.'),
]
