"""What tests share with nova/tests/functional/test_callers.py."""
import re

from nova.api import app as compute_app
from nova.api import versions
from nova.image.rest import handlers as image_handlers
from nova.network.rest import app as network_app
from nova.network.rest import documents as network_documents
from nova.tests.contract import samples
from nova.tests.support import isolation
from nova.volume.rest import handlers as volume_handlers

MISSING, PATCH = isolation.MISSING, isolation.PATCH

# What an open part of a path names, by the part before it: a thing of the other project, or None for what belongs to
# nobody, and for what is asked for below one of its things.
PARTS = {
    'compute': {
        'servers': 'server', 'os-volumes_boot': 'server', 'os-server-groups': 'server_group', 'groups': 'server_group',
        'v3.0': 'project', 'images': 'image', 'os-keypairs': 'key', 'os-instance-actions': 'request',
        'os-networks': 'private_network', 'os-tenant-networks': 'private_network', 'os-interface': 'server_port',
        'os-volume_attachments': 'volume', 'os-volumes': 'volume', 'os-snapshots': 'volume_snapshot',
        'os-security-groups': 'group', 'os-security-group-rules': 'rule',
        'os-quota-sets': 'project', 'os-simple-tenant-usage': 'project', 'flavors': 'flavor', 'migrations': 'migration',
        'metadata': 'metadata_key', 'tags': 'tag', **dict.fromkeys((
            'os-aggregates', 'os-host-maintenance', 'os-assisted-volume-snapshots', 'os-baremetal-nodes', 'extensions',
            'os-extra_specs', 'os-floating-ips', 'os-hosts', 'os-hypervisors', 'os-instance-categories',
            'os-instance_usage_audit_log', 'os-quota-class-sets', 'os-console-auth-tokens', 'os-agents', 'os-cells',
            'os-certificates', 'os-cloudpipe', 'os-fixed-ips', 'os-floating-ip-dns', 'entries', 'os-floating-ips-bulk',
            'os-fping', 'os-security-group-default-rules', 'consoles', 'ips', 'shares', 'os-services', 'versions'))},
    'image': {'images': 'image', 'tags': 'tag', 'members': 'project', 'namespaces': 'namespace', **dict.fromkeys((
        'schemas', 'metadefs', 'objects', 'properties', 'resource_types', 'tasks'))},
    'network': {'networks': 'private_network', 'subnets': 'private_subnet', 'ports': 'port',
                'security-groups': 'group', 'security-group-rules': 'rule', 'routers': 'router',
                'floatingips': 'floating_ip', 'port_forwardings': 'port_forwarding', 'rbac-policies': 'share',
                'address-groups': 'address_group', 'address-scopes': 'address_scope', 'trunks': 'trunk',
                'subnetpools': 'subnet_pool', 'default-security-group-rules': None,
                'tags': 'tag', 'network-ip-availabilities': 'private_network', **dict.fromkeys((
                    'agents', 'conntrack_helpers', 'extensions', 'flavors', 'l3-agents', 'l3-routers',
                    'service_profiles'))},
    'volume': {'volumes': 'volume', 'metadata': 'metadata_key', 'snapshots': 'volume_snapshot',
               'attachments': 'attachment', 'types': None, 'extra_specs': None, 'encryption': None,
               'os-volume-type-access': None, 'qos-specs': None, 'capabilities': None, 'messages': None,
               'os-quota-sets': 'project', 'default-types': 'project', 'backups': 'backup',
               'os-volume-transfer': 'transfer', 'volume-transfers': 'transfer'},
}
OCTETS = {'Content-Type': 'application/octet-stream'}
STREAMS = ('/os-events',)


def compute_rows():
    """(name, method, path, version, body, codes of 500 and more that it documents, whether it is open to all scopes)"""
    for row in compute_app.all_routes():
        version = row.until or versions.MAX_VERSION
        body = samples.sample(row.body.schema(version)) if row.body is not None else None
        if row.action is not None:
            body = body or {row.action: None}
        path = ('/compute/v2.1' if row.api else '/compute') + row.path
        unavailable = {code for code in row.errors if code >= 500}
        yield (f'{row.method} {row.path} {row.action or ""} 2.{version}', row.method, path, versions.text(version),
               body, unavailable, row.public or row.any_scope)


def image_rows():
    for row in image_handlers.ROUTES:
        method, path = row.method, re.sub(r'\{\w+\}', '{}', row.path)
        body = {'POST': {'name': 'a', 'member': 'a'}, 'PUT': {'status': 'accepted'}, 'PATCH': [
            {'op': 'replace', 'path': '/name', 'value': 'stolen'}]}.get(method)
        if path.endswith('/import'):
            body = {'method': {'name': 'glance-direct'}}
        yield f'{method} {path}', method, '/image' + path, None, body, set(), row.any_scope


def network_rows():
    for path, resource in network_app.RESOURCES.items():
        rows = [row for row in network_app.ROUTES if row.path.split('/')[1] == path]
        fields = {'name': 'stolen', 'network_id': MISSING, 'security_group_id': MISSING, 'direction': 'ingress',
                  'cidr': '10.99.0.0/24'}
        for method, where in ((row.method, '/v2.0' + row.path.replace('{id}', '{}')) for row in rows):
            write = 'create' if method == 'POST' else 'update'
            given = {name: value for name, value in fields.items() if name in resource.attributes
                     and write in resource.attributes[name].write}
            body = {resource.name: given} if method in ('POST', 'PUT') else None
            yield f'{method} {where}', method, '/network' + where, None, body, set(), False
    for path in ('extensions', 'availability_zones', 'service-providers', *network_documents.EMPTY, 'quotas',
                 'quotas/{project}', 'quotas/{project}/default', 'quotas/{project}/details', 'quotas/tenant'):
        yield (f'GET /v2.0/{path}', 'GET', f'/network/v2.0/{path}', None, None, set(),
               path.partition('/')[0] in network_documents.UNSCOPED)


def volume_rows():
    for row in volume_handlers.ROUTES:
        path = '/v3' + re.sub(r'\{\w+\}', '{}', row.path)
        body = row.body and samples.sample(row.body.schema(0))
        if row.action:
            body = body or {row.action: {}}
        yield f'{row.method} {path} {row.action or ""}', row.method, '/volume' + path, None, body, set(), False


FACES = {'compute': compute_rows, 'image': image_rows, 'network': network_rows, 'volume': volume_rows}


def kinds(face, path):
    """[(place, what it names)] of the open parts of a path, by PARTS."""
    segments = path.split('/')
    return [(place, PARTS[face][segments[place - 1]]) for place, segment in enumerate(segments)
            if segment.startswith('{') and segment != '{project}']


def path_of(face, path, named, others):
    """A path with its parts; ``others`` for what belongs to nobody."""
    segments = path.replace('{project}', named['project']).split('/')
    for place, kind in kinds(face, path):
        segments[place] = str(named[kind]) if kind else others
    return '/'.join(segments)


def ask(caller, row, path):
    name, method, _path, version, body, *_rest = row
    headers = PATCH if method == 'PATCH' else {}
    more = {'timeout': 60, 'stream': any(path.endswith(each) for each in STREAMS)}
    if method == 'PUT' and path.endswith(('/file', '/stage')):
        return caller.request(method, path, data=b'stolen', headers=OCTETS, **more)
    answer = caller.request(method, path, body, version=version, headers=headers, **more)
    if more['stream']:
        if answer.status_code >= 400:
            _all = answer.content
        answer.close()
    return answer


def text_of(answer, row):
    return '' if row[2].endswith(STREAMS) and answer.status_code < 400 else answer.text
