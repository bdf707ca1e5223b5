"""Limits and usage of a project."""
from typing import Any

from nova.api import request as api_request
from nova.db.projects import quotas
from nova.network import proxied_limits
from nova.web import params
from nova.web.fields import Field
from nova.web.fields import Fields
from nova.web.params import Param
from nova.web.params import Query
from nova.web.routes import Route

_RULE = 'os_compute_api:limits'
NETWORKS_UNTIL = 35

ABSOLUTE = Fields(
    Field('maxImageMeta', 'metadata_items', until=38),
    Field('maxPersonality', 'injected_files', until=56),
    Field('maxPersonalitySize', 'injected_file_content_bytes', until=56),
    Field('maxSecurityGroups', 'security_groups', until=NETWORKS_UNTIL),
    Field('maxSecurityGroupRules', 'security_group_rules', until=NETWORKS_UNTIL),
    Field('maxTotalFloatingIps', 'floating_ips', until=NETWORKS_UNTIL),
    Field('maxServerMeta', 'metadata_items'),
    Field('maxServerGroups', 'server_groups'),
    Field('maxServerGroupMembers', 'server_group_members'),
    Field('maxTotalCores', 'cores'),
    Field('maxTotalInstances', 'instances'),
    Field('maxTotalKeypairs', 'key_pairs'),
    Field('maxTotalRAMSize', 'ram'),
    Field('totalCoresUsed', lambda row, req: row['used']['cores']),
    Field('totalInstancesUsed', lambda row, req: row['used']['instances']),
    Field('totalRAMUsed', lambda row, req: row['used']['ram']),
    Field('totalServerGroupsUsed', lambda row, req: row['used']['server_groups']),
    Field('totalFloatingIpsUsed', lambda row, req: row['used']['floating_ips'], until=NETWORKS_UNTIL),
    Field('totalSecurityGroupsUsed', lambda row, req: row['used']['security_groups'], until=NETWORKS_UNTIL),
)


def index(req: api_request.Request) -> api_request.Document:
    project_id = req.query.one('tenant_id') or req.project_id
    if project_id != req.project_id:
        req.authorize(_RULE + ':other_project', {'project_id': project_id, 'user_id': req.user_id})
    with req.services.api_db.reader() as conn:
        row: dict[str, Any] = {**quotas.limits_of(conn, req.services.conf, project_id),
                               'used': quotas.project_usage(conn, project_id)}
        if not req.has('no_proxies'):
            row.update(proxied_limits.of_project(conn, req.services.conf, project_id))
            row['used'].update(proxied_limits.usage(conn, project_id))
    return {'limits': {'rate': req.services.rates.shown(req.context), 'absolute': ABSOLUTE.builder(req)(row)}}


ROUTES = (
    Route('GET', '/limits', index, policy=_RULE, checks=(_RULE + ':other_project',),
          query=Query(Param('tenant_id', params.STRING), closed=75)),
)
