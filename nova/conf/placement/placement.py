"""[placement]: the Placement service that Neutron reports bandwidth and segments to. Options of keystoneauth1."""
from oslo_config import cfg

from nova.conf.clients import keystoneauth

GROUP = 'placement'

OPTIONS = list(keystoneauth.SERVICE)


def enabled(conf: cfg.ConfigOpts) -> bool:
    """Return whether the Placement service is configured."""
    return bool(conf.network.backend == 'neutron' and conf.placement.auth_type)
