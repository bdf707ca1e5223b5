"""Default policy rules of the APIs; the policy file of each API overrides them."""
from nova.policies import audit
from nova.policies import ec2
from nova.policies import hosts
from nova.policies import objectstore
from nova.policies import projects
from nova.policies import proxies
from nova.policies import server_actions
from nova.policies import servers
from nova.policies.base import BASE_RULES
from nova.policies.block_storage import BLOCK_STORAGE
from nova.policies.identity import IDENTITY
from nova.policies.image import IMAGE
from nova.policies.key_manager import KEY_MANAGER
from nova.policies.network import NETWORK
from nova.policies.service import Rule
from nova.policies.service import Service

__all__ = ('BASE_RULES', 'BLOCK_STORAGE', 'COMPUTE', 'EXTRAS', 'IDENTITY', 'IMAGE', 'KEY_MANAGER', 'NETWORK', 'RULES',
           'SERVICES')

# Rules that grant additional rights in an operation. A rule for a whole extension in a policy file does not replace
# these rules.
EXTRAS = frozenset({
    'os_compute_api:servers:allow_all_filters', 'os_compute_api:os-instance-actions:events',
    'os_compute_api:os-shelve:unshelve_to_host', 'os_compute_api:os-volumes-attachments:swap',
    'compute:server:topology:host:index', 'compute:servers:create:requested_destination',
    'compute:servers:resize:cross_cell', 'nova:servers:create:category', 'nova:servers:delete:category',
    'nova:servers:reboot:category', 'nova:groups:any_project'})

# (rule, check, description, ((method, path), …))
RULES = (*servers.RULES, *server_actions.RULES, *hosts.RULES, *projects.RULES, *proxies.RULES,
         *audit.RULES, *ec2.RULES, *objectstore.RULES)

COMPUTE = Service('compute', 'oslo_policy', 'policy.yaml', BASE_RULES, tuple(Rule(*row) for row in RULES),
                  extensions=True)
SERVICES = (COMPUTE, IDENTITY, IMAGE, BLOCK_STORAGE, NETWORK, KEY_MANAGER)


def named(name: str) -> Service:
    """Return the service of an API by its name."""
    return next(service for service in SERVICES if service.name == name)
