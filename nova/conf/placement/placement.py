"""[placement]: the Placement service that Neutron reports bandwidth and segments to. keystoneauth1's names."""
from oslo_config import cfg

from nova.conf.clients import keystoneauth

GROUP = 'placement'

OPTIONS = list(keystoneauth.SERVICE)


def enabled(conf: cfg.ConfigOpts) -> bool:
    """Whether there is such a service."""
    return bool(conf.network.backend == 'neutron' and conf.placement.auth_type)
