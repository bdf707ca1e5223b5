"""What a project may have, and has."""
from nova.api import params
from nova.api.fields import Field
from nova.api.fields import Fields
from nova.api.params import Param
from nova.api.params import Query
from nova.api.routes import Route
from nova.db import quotas

_RULE = 'os_compute_api:limits'

# Networks set their own limits: the compute API knows of none (-1) and counts none.
ABSOLUTE = Fields(
    Field('maxImageMeta', 'metadata_items', until=38),
    Field('maxPersonality', 'injected_files', until=56),
    Field('maxPersonalitySize', 'injected_file_content_bytes', until=56),
    Field('maxSecurityGroups', lambda row, req: -1, until=35),
    Field('maxSecurityGroupRules', lambda row, req: -1, until=35),
    Field('maxTotalFloatingIps', lambda row, req: -1, until=35),
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
    Field('totalFloatingIpsUsed', lambda row, req: 0, until=35),
    Field('totalSecurityGroupsUsed', lambda row, req: 0, until=35),
)


def index(req):
    project_id = req.query.one('tenant_id') or req.project_id
    if project_id != req.project_id:
        req.authorize(_RULE + ':other_project', {'project_id': project_id, 'user_id': req.user_id})
    with req.services.api_db.reader() as conn:
        row = {**quotas.limits_of(conn, req.services.conf, project_id),
               'used': quotas.project_usage(conn, project_id)}
    return {'limits': {'rate': [], 'absolute': ABSOLUTE.builder(req)(row)}}


ROUTES = (
    Route('GET', '/limits', index, policy=_RULE, checks=(_RULE + ':other_project',),
          query=Query(Param('tenant_id', params.STRING), closed=75)),
)
