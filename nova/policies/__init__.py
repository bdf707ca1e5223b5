"""Default policy rules of the compute API; policy.yaml overrides them."""
from nova.policies import audit
from nova.policies import ec2
from nova.policies import hosts
from nova.policies import objectstore
from nova.policies import projects
from nova.policies import proxies
from nova.policies import server_actions
from nova.policies import servers
from nova.policies.base import BASE_RULES

__all__ = ('BASE_RULES', 'EXTRAS', 'RULES')

# Rules that permit more within an operation with its own rule: a policy file must name them explicitly.
EXTRAS = frozenset({
    'os_compute_api:servers:allow_all_filters', 'os_compute_api:os-instance-actions:events',
    'os_compute_api:os-shelve:unshelve_to_host', 'os_compute_api:os-volumes-attachments:swap',
    'compute:server:topology:host:index', 'compute:servers:create:requested_destination',
    'compute:servers:resize:cross_cell', 'nova:servers:create:category', 'nova:servers:delete:category',
    'nova:servers:reboot:category', 'nova:groups:any_project'})

# (rule, check, description, ((method, path), …))
RULES = (*servers.RULES, *server_actions.RULES, *hosts.RULES, *projects.RULES, *proxies.RULES,
         *audit.RULES, *ec2.RULES, *objectstore.RULES)
