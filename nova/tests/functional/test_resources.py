"""Rules that hold for every resource of the compute, block storage, image and identity APIs.

A row of RESOURCES says how a resource is made with all its attributes, which of them can be written and which filters
its list has. What is read can be written back: 200, and nothing changes. Each filter finds the resource by the value
that was read. Each value has the form of the API reference's sample.
"""
import dataclasses
import json
import re
import urllib.parse
from collections.abc import Callable

import pytest

from nova.tests.support import waiting
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support import isolation

MAX = {'compute': 'compute 2.104', 'volume': 'volume 3.68'}
UUID = re.compile('[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')
HEX = re.compile('[0-9a-f]{32}')
ANY_ID = re.compile(f'{UUID.pattern}|{HEX.pattern}')
TIME = re.compile(r'\d{4}-\d\d-\d\dT')
EXACT = re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}')
SECONDS = re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ')
COLON_HEX = re.compile('([0-9a-f]{2}:){15}[0-9a-f]{2}')
TEXT, NUMBER, FLAG, LIST, OBJECT = str, int, bool, list, dict
NONE = type(None)
URL = re.compile('https?://.+')
PATCH = {'Content-Type': 'application/openstack-images-v2.1-json-patch'}
KEY = isolation.PUBLIC_KEY


@dataclasses.dataclass(frozen=True)
class Resource:
    """One kind of resource.

    :param path: of its list; the API is the first part
    :param key: of one in a body; '' where the body is the resource itself
    :param create: (stage) -> the attributes of the request, or None where there is one already
    :param writable: attributes that a PUT or PATCH takes
    :param filters: {query parameter: attribute, or function(shown) -> (value that finds it, value that does not)}
    :param form: {attribute: type, pattern, or a tuple of both}
    :param method: of the update
    :param one: path of one, with {id}, where it is not below the list
    :param changing: attributes that differ from one read to the next
    :param detail: of the list, appended to its path
    """

    path: str
    key: str
    create: Callable
    form: dict
    writable: tuple = ()
    filters: dict = dataclasses.field(default_factory=dict)
    plural: str = ''
    method: str = 'PUT'
    ident: str = 'id'
    admin: bool = False
    changing: tuple = ()
    detail: str = ''
    version: str = ''

    @property
    def face(self):
        return self.path.split('/')[1]


def given(**values):
    return lambda stage: values


@dataclasses.dataclass
class Stage:
    """A running cloud, its callers, and what resources need."""

    cloud: object
    admin: object
    demo: object
    image: str = ''
    volume: str = ''
    given_volume: str = ''
    admin_volume: str = ''

    def caller(self, resource):
        return self.admin if resource.admin else self.demo

    def ask(self, resource, method, path, body=None, **more):
        version = resource.version or MAX.get(resource.face)
        headers = {'OpenStack-API-Version': version} if version else {}
        return self.caller(resource).request(method, path, body, headers={**headers, **more.pop('headers', {})}, **more)

    def read(self, resource, ident):
        answer = self.ask(resource, 'GET', f'{resource.path}/{ident}')
        assert answer.status_code == 200, answer.text
        found = answer.json()
        return found[resource.key] if resource.key else found


def by_items(row):
    """Metadata as clients send them, and others."""
    return str(row['metadata']), "{'key': 'other'}"


VOLUME_TEXTS = {'name': TEXT, 'description': TEXT, 'metadata': OBJECT, 'status': TEXT, 'size': NUMBER, 'id': UUID,
                'created_at': EXACT, 'updated_at': (EXACT, NONE), 'user_id': ANY_ID}
RESOURCES = {
    'flavor': Resource(
        '/compute/v2.1/flavors', 'flavor', given(
            name='wide', id='wide', ram=64, vcpus=1, disk=1, swap=8, rxtx_factor=2.0, description='wide one',
            **{'OS-FLV-EXT-DATA:ephemeral': 1, 'os-flavor-access:is_public': True}),
        {'id': TEXT, 'name': TEXT, 'ram': NUMBER, 'vcpus': NUMBER, 'disk': NUMBER, 'swap': NUMBER, 'description': TEXT,
         'OS-FLV-EXT-DATA:ephemeral': NUMBER, 'OS-FLV-DISABLED:disabled': FLAG, 'os-flavor-access:is_public': FLAG,
         'links': LIST, 'extra_specs': OBJECT, 'rxtx_factor': float},
        ('description',), {'is_public': 'os-flavor-access:is_public', 'minRam': 'ram', 'minDisk': 'disk'},
        admin=True, detail='/detail', version='compute 2.101'),
    'key pair': Resource(
        '/compute/v2.1/os-keypairs', 'keypair', given(name='mine', type='ssh', public_key=KEY),
        {'name': TEXT, 'type': TEXT, 'public_key': TEXT, 'fingerprint': COLON_HEX, 'user_id': HEX, 'id': NUMBER,
         'created_at': EXACT, 'updated_at': NONE, 'deleted': FLAG, 'deleted_at': NONE},
        filters={'user_id': 'user_id'}, ident='name', admin=True),
    'aggregate': Resource(
        '/compute/v2.1/os-aggregates', 'aggregate', given(name='rack', availability_zone='north'),
        {'id': NUMBER, 'uuid': UUID, 'name': TEXT, 'availability_zone': TEXT, 'created_at': EXACT,
         'updated_at': (EXACT, NONE), 'deleted': FLAG, 'deleted_at': NONE, 'hosts': LIST, 'metadata': OBJECT},
        ('name', 'availability_zone'), admin=True, changing=('updated_at',)),
    'server group': Resource(
        '/compute/v2.1/os-server-groups', 'server_group', given(
            name='apart', policy='anti-affinity', rules={'max_server_per_host': 2}),
        {'id': UUID, 'name': TEXT, 'policy': TEXT, 'rules': OBJECT, 'members': LIST, 'project_id': HEX,
         'user_id': HEX}),
    'server': Resource(
        '/compute/v2.1/servers', 'server', lambda stage: {
            'name': 'all of it', 'imageRef': stage.image, 'flavorRef': '42', 'key_name': 'used', 'networks': 'auto',
            'metadata': {'key': 'value'}, 'tags': ['one', 'two'], 'description': 'a server', 'config_drive': True,
            'accessIPv4': '192.0.2.1', 'accessIPv6': '2001:db8::1', 'availability_zone': 'nova', 'hostname': 'all',
            'OS-DCF:diskConfig': 'MANUAL', 'user_data': 'YQ=='},
        {'id': UUID, 'name': TEXT, 'status': TEXT, 'tenant_id': HEX, 'user_id': HEX,
         'hostId': re.compile('[0-9a-f]{56}'), 'metadata': OBJECT, 'image': OBJECT, 'flavor': OBJECT,
         'created': SECONDS, 'updated': SECONDS,
         'addresses': OBJECT, 'accessIPv4': TEXT, 'accessIPv6': TEXT, 'links': LIST, 'OS-DCF:diskConfig': TEXT,
         'progress': NUMBER, 'OS-EXT-AZ:availability_zone': TEXT, 'config_drive': TEXT, 'key_name': TEXT,
         'OS-SRV-USG:launched_at': EXACT, 'OS-SRV-USG:terminated_at': NONE, 'security_groups': LIST,
         'OS-EXT-SRV-ATTR:host': TEXT, 'OS-EXT-SRV-ATTR:hypervisor_hostname': TEXT,
         'OS-EXT-SRV-ATTR:instance_name': TEXT, 'OS-EXT-SRV-ATTR:hostname': TEXT,
         'OS-EXT-SRV-ATTR:reservation_id': re.compile('r-[0-9a-z]+'), 'OS-EXT-SRV-ATTR:launch_index': NUMBER,
         'OS-EXT-SRV-ATTR:kernel_id': TEXT, 'OS-EXT-SRV-ATTR:ramdisk_id': TEXT,
         'OS-EXT-SRV-ATTR:root_device_name': TEXT, 'OS-EXT-SRV-ATTR:user_data': TEXT, 'OS-EXT-STS:task_state': NONE,
         'OS-EXT-STS:vm_state': TEXT, 'OS-EXT-STS:power_state': NUMBER,
         'os-extended-volumes:volumes_attached': LIST, 'host_status': TEXT, 'locked': FLAG, 'locked_reason': NONE,
         'description': TEXT, 'tags': LIST, 'trusted_image_certificates': NONE, 'server_groups': LIST,
         'pinned_availability_zone': (TEXT, NONE), 'scheduler_hints': OBJECT},
        ('name', 'accessIPv4', 'accessIPv6', 'OS-DCF:diskConfig', 'description', 'OS-EXT-SRV-ATTR:hostname',
         'pinned_availability_zone'),
        {'name': 'name', 'status': 'status', 'uuid': 'id', 'user_id': 'user_id', 'project_id': 'tenant_id',
         'tenant_id': 'tenant_id', 'image': lambda row: (row['image']['id'], isolation.MISSING),
         'flavor': lambda row: ('42', '1'),
         'key_name': 'key_name', 'availability_zone': 'OS-EXT-AZ:availability_zone',
         'config_drive': 'config_drive', 'description': 'description', 'access_ip_v4': 'accessIPv4',
         'access_ip_v6': 'accessIPv6', 'launch_index': 'OS-EXT-SRV-ATTR:launch_index',
         'hostname': 'OS-EXT-SRV-ATTR:hostname', 'host': 'OS-EXT-SRV-ATTR:host',
         'node': 'OS-EXT-SRV-ATTR:hypervisor_hostname', 'locked': 'locked', 'vm_state': 'OS-EXT-STS:vm_state',
         'power_state': 'OS-EXT-STS:power_state', 'progress': 'progress',
         'reservation_id': 'OS-EXT-SRV-ATTR:reservation_id', 'root_device_name': 'OS-EXT-SRV-ATTR:root_device_name',
         'auto_disk_config': 'OS-DCF:diskConfig', 'created_at': 'created', 'launched_at': 'OS-SRV-USG:launched_at',
         'tags': lambda row: ('one,two', 'one,three'), 'tags-any': lambda row: ('one,three', 'three'),
         'not-tags': lambda row: ('one,three', 'one,two'), 'not-tags-any': lambda row: ('three', 'one,three'),
         'changes-since': 'updated', 'changes-before': lambda row: (row['updated'], '2016-01-01T00:00:00Z'),
         'ip': lambda row: (next(iter(row['addresses'].values()))[0]['addr'], '203.0.113.9'),
         'deleted': lambda row: ('False', 'True')},
        admin=True, detail='/detail', changing=('updated',)),
    'volume': Resource(
        '/volume/v3/volumes', 'volume', lambda stage: {
            'name': 'all of it', 'description': 'a volume', 'size': 1, 'metadata': {'key': 'value'},
            'availability_zone': 'nova', 'imageRef': stage.image},
        {**VOLUME_TEXTS, 'availability_zone': TEXT, 'volume_type': TEXT, 'volume_type_id': UUID, 'bootable': TEXT,
         'multiattach': FLAG, 'encrypted': FLAG, 'snapshot_id': NONE, 'source_volid': NONE, 'replication_status': NONE,
         'consistencygroup_id': NONE, 'group_id': NONE, 'provider_id': NONE, 'service_uuid': NONE,
         'shared_targets': FLAG, 'consumes_quota': FLAG, 'links': LIST, 'attachments': LIST, 'cluster_name': NONE,
         'volume_image_metadata': OBJECT, 'os-vol-tenant-attr:tenant_id': HEX, 'os-vol-mig-status-attr:migstat': NONE,
         'os-vol-mig-status-attr:name_id': NONE, 'os-vol-host-attr:host': TEXT, 'migration_status': NONE},
        ('name', 'description', 'metadata'),
        {'name': 'name', 'status': 'status', 'bootable': 'bootable', 'availability_zone': 'availability_zone',
         'metadata': by_items, 'id': 'id', 'size': 'size', 'description': 'description',
         'user_id': 'user_id', 'created_at': 'created_at',
         'updated_at': lambda row: (f'gte:{row["updated_at"]}', f'lt:{row["updated_at"]}')},
        admin=True, detail='/detail', changing=('updated_at',)),
    'snapshot': Resource(
        '/volume/v3/snapshots', 'snapshot', lambda stage: {
            'name': 'all of it', 'description': 'a snapshot', 'volume_id': stage.volume, 'metadata': {'key': 'value'},
            'force': True},
        {**VOLUME_TEXTS, 'volume_id': UUID, 'group_snapshot_id': NONE, 'consumes_quota': FLAG,
         'os-extended-snapshot-attributes:project_id': HEX,
         'os-extended-snapshot-attributes:progress': re.compile('[0-9]+%')},
        ('name', 'description'), {'name': 'name', 'status': 'status', 'volume_id': 'volume_id',
                                  'metadata': by_items,
                                  'id': 'id', 'user_id': 'user_id'},
        detail='/detail', changing=('updated_at',)),
    'backup': Resource(
        '/volume/v3/backups', 'backup', lambda stage: {
            'name': 'all of it', 'description': 'a backup', 'volume_id': stage.volume, 'metadata': {'key': 'value'},
            'force': True},
        {**VOLUME_TEXTS, 'volume_id': UUID, 'snapshot_id': NONE, 'object_count': NUMBER, 'container': (TEXT, NONE),
         'availability_zone': (TEXT, NONE), 'is_incremental': FLAG, 'has_dependent_backups': FLAG,
         'fail_reason': (TEXT, NONE), 'data_timestamp': EXACT, 'encryption_key_id': NONE, 'links': LIST,
         'os-backup-project-attr:project_id': HEX},
        ('name', 'description', 'metadata'),
        {'name': 'name', 'status': 'status', 'volume_id': 'volume_id', 'metadata': by_items},
        detail='/detail', changing=('updated_at',), admin=True),
    'volume type': Resource(
        '/volume/v3/types', 'volume_type', lambda stage: {
            'name': 'fast', 'description': 'a type', 'extra_specs': {'multiattach': '<is> True'},
            'os-volume-type-access:is_public': True},
        {'id': UUID, 'name': TEXT, 'description': TEXT, 'is_public': FLAG, 'extra_specs': OBJECT, 'qos_specs_id': NONE,
         'os-volume-type-access:is_public': FLAG},
        ('name', 'description', 'is_public'), {'is_public': 'is_public'}, admin=True),
    'volume transfer': Resource(
        '/volume/v3/volume-transfers', 'transfer', lambda stage: {'name': 'all of it', 'volume_id': stage.given_volume},
        {'id': UUID, 'name': TEXT, 'volume_id': UUID, 'created_at': EXACT, 'links': LIST},
        detail='/detail', version='volume 3.55'),
    'image': Resource(
        '/image/v2/images', '', given(
            name='all of it', disk_format='raw', container_format='bare', min_disk=1, min_ram=64, visibility='private',
            protected=False, os_hidden=False, tags=['one'], os_distro='debian'),
        {'id': UUID, 'name': TEXT, 'disk_format': TEXT, 'container_format': TEXT, 'min_disk': NUMBER, 'min_ram': NUMBER,
         'visibility': TEXT, 'protected': FLAG, 'os_hidden': FLAG, 'tags': LIST, 'os_distro': TEXT, 'status': TEXT,
         'owner': HEX, 'size': (NUMBER, NONE), 'virtual_size': (NUMBER, NONE), 'checksum': (TEXT, NONE),
         'os_hash_algo': (TEXT, NONE), 'os_hash_value': (TEXT, NONE), 'created_at': SECONDS, 'updated_at': SECONDS,
         'self': TEXT, 'file': TEXT, 'schema': TEXT},
        ('name', 'disk_format', 'container_format', 'min_disk', 'min_ram', 'visibility', 'protected', 'os_hidden',
         'tags', 'os_distro'),
        {'name': 'name', 'status': 'status', 'visibility': 'visibility', 'protected': 'protected', 'owner': 'owner',
         'container_format': 'container_format', 'disk_format': 'disk_format', 'os_hidden': 'os_hidden',
         'min_disk': 'min_disk', 'min_ram': 'min_ram', 'tag': lambda row: ('one', 'two'), 'os_distro': 'os_distro',
         'id': lambda row: ('in:' + row['id'], 'in:' + isolation.MISSING),
         'created_at': lambda row: ('eq:' + row['created_at'], 'neq:' + row['created_at']),
         'updated_at': lambda row: ('lte:' + row['updated_at'], 'gt:' + row['updated_at'])},
        plural='images', method='PATCH', changing=('updated_at',)),
    'project': Resource(
        '/identity/v3/projects', 'project', given(
            name='whole', description='a project', enabled=True, domain_id='default', parent_id='default', tags=['one'],
            is_domain=False, options={}),
        {'id': HEX, 'name': TEXT, 'description': TEXT, 'enabled': FLAG, 'domain_id': TEXT, 'parent_id': TEXT,
         'is_domain': FLAG, 'tags': LIST, 'options': OBJECT, 'links': OBJECT},
        ('name', 'description', 'enabled', 'domain_id', 'parent_id', 'is_domain', 'tags', 'options'),
        {'name': 'name', 'enabled': 'enabled', 'domain_id': 'domain_id', 'parent_id': 'parent_id',
         'is_domain': 'is_domain', 'tags': lambda row: ('one', 'one,two'), 'tags-any': lambda row: ('one,two', 'two'),
         'not-tags': lambda row: ('one,two', 'one'), 'not-tags-any': lambda row: ('two', 'one,two')},
        method='PATCH', admin=True),
    'user': Resource(
        '/identity/v3/users', 'user', lambda stage: {
            'name': 'whole', 'description': 'a user', 'enabled': True, 'domain_id': 'default', 'email': 'a@example.org',
            'password': 'long enough', 'default_project_id': stage.demo.project_id,
            'options': {'ignore_password_expiry': False}},
        {'id': HEX, 'name': TEXT, 'description': TEXT, 'enabled': FLAG, 'domain_id': TEXT, 'email': TEXT,
         'default_project_id': HEX, 'options': OBJECT, 'password_expires_at': (EXACT, NONE), 'links': OBJECT},
        ('name', 'description', 'enabled', 'domain_id', 'email', 'default_project_id', 'options'),
        {'name': 'name', 'enabled': 'enabled', 'domain_id': 'domain_id', 'password_expires_at': 'password_expires_at'},
        method='PATCH', admin=True),
    'role': Resource(
        '/identity/v3/roles', 'role', given(name='whole', description='a role', options={}, domain_id=None),
        {'id': HEX, 'name': TEXT, 'description': TEXT, 'domain_id': NONE, 'options': OBJECT, 'links': OBJECT},
        ('name', 'description', 'options', 'domain_id'), {'name': 'name'}, method='PATCH', admin=True),
    'credential': Resource(
        '/identity/v3/credentials', 'credential', lambda stage: {
            'blob': json.dumps({'access': 'whole access key', 'secret': 'a secret of an EC2 client'}), 'type': 'ec2',
            'user_id': stage.admin.user_id, 'project_id': stage.admin.project_id},
        {'id': re.compile('[0-9a-f]{64}'), 'blob': TEXT, 'type': TEXT, 'user_id': HEX, 'project_id': HEX,
         'links': OBJECT},
        ('blob', 'type', 'user_id', 'project_id'), {'user_id': 'user_id', 'type': 'type'}, method='PATCH', admin=True),
}
# attributes of requests that have another name in responses, or none
UNSEEN = {'server': {'config_drive', 'imageRef', 'flavorRef', 'networks', 'availability_zone', 'hostname',
                                                 'user_data'},
          'volume': {'imageRef'}, 'snapshot': {'force'}, 'backup': {'force'}, 'user': {'password'}}
# another name in the request
WRITTEN_AS = {'OS-EXT-SRV-ATTR:hostname': 'hostname'}


@pytest.fixture(scope='module')
def stage(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('resources'), quota__instances=-1, quota__cores=-1,
                               quota__ram=-1, identity__password_expires_days=30) as cloud:
        made = Stage(cloud, cloud.admin(), cloud.client())
        made.image = made.admin.upload_image(visibility='public')
        made.volume = isolation.one(made.demo, '/volume/v3/volumes', 'volume', size=1)['id']
        for caller, name in ((made.admin, 'used'), (made.demo, 'used')):
            isolation.one(caller, '/os-keypairs', 'keypair', name=name, public_key=KEY)
        made.given_volume = isolation.one(made.demo, '/volume/v3/volumes', 'volume', size=1)['id']
        made.admin_volume = isolation.one(made.admin, '/volume/v3/volumes', 'volume', size=1)['id']
        yield made


@pytest.fixture(scope='module')
def shown(stage):
    """name -> the resource as it is read, made at the first call."""
    made = {}

    def make(name):
        if name in made:
            return made[name]
        resource = RESOURCES[name]
        body = resource.create(stage)
        if resource.admin and body.get('volume_id'):
            body['volume_id'] = stage.admin_volume
        answer = stage.ask(resource, 'POST', resource.path, {resource.key: body} if resource.key else body)
        assert answer.status_code in (200, 201, 202), answer.text
        found = answer.json()[resource.key] if resource.key else answer.json()
        ident = found[resource.ident]
        if resource.key in ('server', 'volume', 'snapshot', 'backup'):
            waiting.wait_for(lambda: stage.read(resource, ident)['status'] in ('ACTIVE', 'available'), 60, name)
        made[name] = stage.read(resource, ident)
        return made[name]
    return make


def fits(value, form):
    """Whether a value has one of the forms; a flag is no number."""
    return any(bool(form.fullmatch(value)) if isinstance(form, re.Pattern) and isinstance(value, str)
               else type(value) is form for form in (form if isinstance(form, tuple) else (form,)))


@pytest.mark.parametrize('name', RESOURCES)
def test_created_resource_is_read_as_sent_and_has_the_sample_form(stage, shown, name):
    resource, row = RESOURCES[name], shown(name)
    sent = resource.create(stage)
    if resource.admin and sent.get('volume_id'):
        sent['volume_id'] = stage.admin_volume
    differ = {key: (value, row.get(key)) for key, value in sent.items()
              if key not in UNSEEN.get(name, ()) and row.get(key) != value}
    assert differ == {}
    assert row.keys() == resource.form.keys()
    assert {key: value for key, value in row.items() if not fits(value, resource.form[key])} == {}


@pytest.mark.parametrize('name', [name for name, row in RESOURCES.items() if row.writable])
def test_resource_can_be_updated_with_the_values_that_were_read(stage, shown, name):
    resource, row = RESOURCES[name], shown(name)
    values = {WRITTEN_AS.get(key, key): row[key] for key in resource.writable}
    path, wrong = f'{resource.path}/{row[resource.ident]}', {}
    for part in (values, *({key: value} for key, value in values.items())):
        if resource.key:
            answer = stage.ask(resource, resource.method, path, {resource.key: part})
        else:
            answer = stage.ask(resource, 'PATCH', path, [
                {'op': 'replace', 'path': f'/{key}', 'value': value} for key, value in part.items()], headers=PATCH)
        if answer.status_code != 200:
            wrong[str(part)] = answer.status_code, answer.text
    assert wrong == {}
    now = stage.read(resource, row[resource.ident])
    assert {key: now[key] for key in now if key not in resource.changing} == {
        key: row[key] for key in row if key not in resource.changing}


@pytest.mark.parametrize('name, query', [(name, query) for name, row in RESOURCES.items() for query in row.filters])
def test_a_filter_finds_by_the_value_that_was_read(stage, shown, name, query):
    resource, ident = RESOURCES[name], shown(name)[RESOURCES[name].ident]
    row, wanted = stage.read(resource, ident), resource.filters[query]

    def listed(value):
        path = f'{resource.path}{resource.detail}?{urllib.parse.urlencode({query: value})}'
        answer = stage.ask(resource, 'GET', path + ('&all_tenants=1' if name == 'server' else ''))
        found = answer.json().get(resource.plural or resource.key + 's', ())
        return answer.status_code, ident in [each.get('keypair', each)[resource.ident] for each in found]
    value, other = wanted(row) if callable(wanted) else (row[wanted], another(row[wanted]))
    assert listed(value) == (200, True)
    assert listed(other) in ((200, False), (400, False)), 'the filter has no effect'


def another(value):
    """A value of the same form that no resource has."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if TIME.match(value):
        return f'2036{value[4:]}'
    return next((other for form, other in ((UUID, isolation.MISSING), (HEX, '0' * 32)) if form.fullmatch(value)),
                {'True': 'False', 'true': 'false', 'MANUAL': 'AUTO', 'ACTIVE': 'ERROR'}.get(value, 'another'))


# Documents below a resource: (path, (the document that was read) -> body, method). {name} is the id of a resource.
PARTS = {
    'metadata of a server': ('/compute/v2.1/servers/{server}/metadata', dict, 'PUT'),
    'tags of a server': ('/compute/v2.1/servers/{server}/tags', dict, 'PUT'),
    'extra specs of a flavor': ('/compute/v2.1/flavors/{flavor}/os-extra_specs', dict, 'POST'),
    'quotas of compute': ('/compute/v2.1/os-quota-sets/{project}', lambda document: without_id(document), 'PUT'),
    'quotas of a class': ('/compute/v2.1/os-quota-class-sets/default', lambda document: without_id(document), 'PUT'),
    'quotas of block storage': ('/volume/v3/os-quota-sets/{project}', lambda document: without_id(document), 'PUT'),
    'metadata of a volume': ('/volume/v3/volumes/{volume}/metadata', dict, 'PUT'),
    'metadata of a snapshot': ('/volume/v3/snapshots/{snapshot}/metadata', dict, 'PUT'),
    'extra specs of a volume type': ('/volume/v3/types/{volume type}/extra_specs', dict, 'POST'),
    'a member of an image': ('/image/v2/images/{image}/members/{project}',
                             lambda document: {'status': document['status']}, 'PUT'),
}
BEFORE = {
    'extra specs of a flavor': ('POST', '/compute/v2.1/flavors/{flavor}/os-extra_specs',
                                {'extra_specs': {'hw:cpu_policy': 'shared'}}),
    'a member of an image': ('POST', '/image/v2/images/{image}/members', {'member': '{project}'}),
}


def without_id(document):
    return {key: {name: value for name, value in values.items() if name != 'id'} for key, values in document.items()}


@pytest.mark.parametrize('name', PARTS)
def test_a_part_that_was_read_is_written_back(stage, shown, name):
    pattern, body, method = PARTS[name]
    admin = stage.admin

    def filled(text):
        text = text.replace('{project}', stage.demo.project_id)
        for each in re.findall('{([a-z ]+)}', text):
            text = text.replace(f'{{{each}}}', shown(each)['id'])
        return text

    def ask(method, path, body=None):
        version = MAX.get(path.split('/')[1])
        return (stage.demo if 'snapshot' in path else admin).request(
            method, path, body, headers={'OpenStack-API-Version': version} if version else {})
    if name == 'a member of an image':
        shared = [{'op': 'replace', 'path': '/visibility', 'value': 'shared'}]
        owner = stage.caller(RESOURCES['image'])
        assert owner.request('PATCH', filled('/image/v2/images/{image}'), shared, headers=PATCH).status_code == 200
    if name in BEFORE:
        verb, path, first = BEFORE[name]
        first = json.loads(filled(json.dumps(first))) if name == 'a member of an image' else first
        made = ask(verb, filled(path), first)
        assert made.status_code == 200, made.text
    path = filled(pattern)
    before = ask('GET', path)
    assert before.status_code == 200, before.text
    answer = ask(method, path, body(before.json()))
    assert answer.status_code == 200, answer.text
    after = ask('GET', path).json()
    after.pop('updated_at', None)
    assert after == {key: value for key, value in before.json().items() if key != 'updated_at'}


def test_a_service_and_the_metadata_of_an_aggregate_are_written_back(stage, shown):
    admin = stage.admin
    path = '/compute/v2.1/os-services'
    row = next(each for each in admin.get(path, version='2.104').json()['services'] if each['binary'] == 'nova-compute')
    answer = admin.put(f'{path}/{row["id"]}', {name: row[name] for name in ('status', 'forced_down')}, version='2.104')
    assert answer.status_code == 200 and answer.json()['service'] == {
        **row, 'updated_at': answer.json()['service']['updated_at']}
    aggregate = shown('aggregate')
    answer = admin.post(f'/compute/v2.1/os-aggregates/{aggregate["id"]}/action',
                        {'set_metadata': {'metadata': aggregate['metadata']}}, version='2.104')
    assert answer.status_code == 200, answer.text
    now = answer.json()['aggregate']
    assert {**now, 'updated_at': None} == {**aggregate, 'updated_at': None}
