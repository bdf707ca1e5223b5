"""The Block Storage API and its OpenAPI document: valid, served, and what every operation answers."""
import gzip
import json
import time
import urllib.parse

import hypothesis
import openapi_spec_validator
import pytest
import schemathesis
import webob

from nova import conf as nova_conf
from nova import context
from nova.db import engine
from nova.db.tables import volume as tables_volume
from nova.image.embedded import service as image_store
from nova.image.embedded.images import EmbeddedImages
from nova.tests import openapi_answers
from nova.volume import embedded
from nova.volume.rest import app
from nova.volume.rest import handlers
from nova.volume.rest import openapi
from nova.volume.rest import resources
from nova.web import openapi as web_openapi
from nova.web.resource import Resource

NEWEST = openapi.MICROVERSIONS.maximum
PROJECT, OTHER, SERVER = 'a' * 32, 'b' * 32, '11111111-2222-3333-4444-555555555555'
CALLERS = {'member': (PROJECT, ['member', 'reader']), 'other': (OTHER, ['member', 'reader']),
           'admin': (PROJECT, ['admin', 'member', 'reader']), 'service': (PROJECT, ['service', 'member', 'reader'])}
RESOURCES = [value for value in vars(resources).values() if isinstance(value, Resource)]


class Api:
    """The application over a database of its own; every answer is compared with the document."""

    def __init__(self, directory):
        self.db = engine.Database(f'sqlite:///{directory}/api.sqlite')
        tables_volume.volumes.metadata.create_all(self.db.engine)
        images = EmbeddedImages(image_store.Store(self.db, str(directory / 'images')))
        conf = nova_conf.new(files=[], host='h1', state_path=str(directory))
        self.application = app.Application(embedded.EmbeddedVolumes(conf, self.db, images))
        self.version = None

    def call(self, method, path, body=None, who='member', status=None, headers=()):
        request = webob.Request.blank(path, method=method, headers=dict(headers))
        if who:
            project, roles = CALLERS[who]
            request.environ['nova.context'] = context.RequestContext(
                user_id=who, project_id=project, roles=roles, is_admin=who == 'admin', overwrite=False)
        if body is not None:
            request.json = body
        if self.version is not None:
            request.headers['OpenStack-API-Version'] = f'volume 3.{self.version}'
        response = request.get_response(self.application)
        if path.startswith('/v3'):
            openapi_answers.VOLUME.check(method, path.partition('?')[0], body, response.status_int, response.headers,
                                         response.text)
        assert status is None or response.status_int == status, (method, path, response.text)
        return response

    def wait_for(self, backup):
        deadline = time.monotonic() + 60
        while self.call('GET', f'/v3/backups/{backup}').json['backup']['status'] != 'available':
            assert time.monotonic() < deadline
            time.sleep(.02)

    def made(self, path, key, body, who='member'):
        """The id of a new resource, which is not being copied any more."""
        made = self.call('POST', path, {key: body}, who).json[key]
        if 'status' in made:
            deadline = time.monotonic() + 60
            while self.call('GET', f'{path}/{made["id"]}').json[key]['status'] == 'creating':
                assert time.monotonic() < deadline
                time.sleep(.02)
        return made['id']


@pytest.fixture
def api(tmp_path):
    made = Api(tmp_path)
    yield made
    made.db.dispose()


@pytest.mark.parametrize(('minor', 'actions'), [(0, web_openapi.MERGED), (NEWEST, web_openapi.SPLIT)])
def test_an_independent_validator_finds_the_document_valid(minor, actions):
    document = openapi.DESCRIBER.document(handlers.ROUTES, minor, actions)
    openapi_spec_validator.validate(document, cls=openapi_spec_validator.OpenAPIV31SpecValidator)
    described = {web_openapi.operation_of(row) for row in web_openapi.served(handlers.ROUTES, minor)}
    if actions == web_openapi.SPLIT:
        assert described == {f'{method.upper()} {web_openapi.nameless(path).replace("#", " ")}'
                             for path, item in document['paths'].items() for method in item.keys() - {'parameters'}}


def test_every_field_is_described_and_its_column_exists():
    assert len(RESOURCES) > 7
    for resource in RESOURCES:
        assert [field.name for field in resource.fields if not field.doc.endswith('.')] == []
        if resource.table is not None:
            columns = {*resource.filters.values(), *resource.sort_keys}
            assert columns - {*resource.table.c.keys()} == set(), resource.name


def test_every_answer_with_a_body_is_described():
    without = {web_openapi.operation_of(row) for row in handlers.ROUTES if row.answer is None}
    changes = {f'GET /qos-specs/{{}}/{name}' for name in ('associate', 'disassociate', 'disassociate_all')}
    assert {name for name in without if name.startswith('GET ')} == changes


def test_the_document_is_served_to_anybody(api):
    answer = api.call('GET', '/openapi.json', who=None, status=200)
    assert answer.json == json.loads(json.dumps(openapi.DESCRIBER.document(handlers.ROUTES, NEWEST)))
    older = api.call('GET', '/openapi.json?microversion=3.0', who=None, headers={'Accept-Encoding': 'gzip'})
    assert json.loads(gzip.decompress(older.body))['info']['version'] == '3.0'
    again = api.call('GET', '/openapi.json', who=None, headers={'If-None-Match': answer.headers['ETag']})
    assert (again.status_int, again.body) == (304, b'')
    for query, status in (('microversion=3.99', 406), ('microversion=x', 400), ('version=3.0', 400)):
        api.call('GET', '/openapi.json?' + query, who=None, status=status)


def test_a_field_is_documented_at_its_versions_only():
    def fields(minor):
        item = openapi.DESCRIBER.document(handlers.ROUTES, minor)['paths']['/volumes/{ident}']['get']
        return item['responses']['200']['content']['application/json']['schema']['properties']['volume']['properties']
    assert 'volume_type_id' not in fields(62) and 'volume_type_id' in fields(63)
    assert fields(0)['size'] == {'type': 'integer', 'description': 'Size in GiB.'}


@pytest.mark.parametrize('version', [None, NEWEST])
def test_every_operation_answers_as_documented(api, version):
    api.version = version
    seen = openapi_answers.VOLUME.seen
    seen.clear()
    _types(api)
    _volumes(api)
    _copies(api)
    _attachments(api)
    _qos(api)
    _managed(api)
    for path in ('/limits', f'/os-quota-sets/{PROJECT}', f'/os-quota-sets/{PROJECT}?usage=1',
                 f'/os-quota-sets/{PROJECT}/defaults', '/os-availability-zone', '/extensions', '/groups/detail'):
        api.call('GET', '/v3' + path, status=200)
    for path in ('/qos-specs', '/os-services', '/scheduler-stats/get_pools?detail=true', '/capabilities/nova@embedded'):
        api.call('GET', '/v3' + path, who='admin', status=200)
    api.call('PUT', f'/v3/os-quota-sets/{OTHER}', {'quota_set': {'volumes': 5}}, 'admin', 200)
    api.call('DELETE', f'/v3/os-quota-sets/{OTHER}', who='admin', status=200)
    if version:
        kind, default = api.made('/v3/types', 'volume_type', {'name': 'u'}, 'admin'), f'/v3/default-types/{PROJECT}'
        api.call('PUT', default, {'default_type': {'volume_type': kind}}, 'admin', 200)
        for path in (default, '/v3/default-types'):
            api.call('GET', path, who='admin', status=200)
        api.call('DELETE', default, who='admin', status=204)
        for path in ('/resource_filters', '/messages'):
            api.call('GET', '/v3' + path, status=200)
        for method in ('GET', 'DELETE'):
            api.call(method, f'/v3/messages/{SERVER}', status=404)
    expected = {web_openapi.operation_of(row) for row in web_openapi.served(handlers.ROUTES, version or 0)}
    missing = expected - {name for name, status in seen if status < 400} - {
        # there are no messages; the others need an image, a second type, an encrypted volume
        'GET /messages/{}', 'DELETE /messages/{}',
        'POST /volumes/{}/action os-reimage', 'POST /volumes/{}/action os-retype',
        'POST /volumes/{}/action nova:passphrase'}
    assert missing == set()
    assert {status for _name, status in seen} >= {200, 202, 204, 400, 403, 404}


def test_requests_generated_from_the_document_get_documented_answers(api):
    """schemathesis generates requests for each operation; Api.call validates the answers."""
    api.version = NEWEST
    document = openapi.DESCRIBER.document(handlers.ROUTES, NEWEST, web_openapi.SPLIT)
    document['security'] = []
    for item in document['paths'].values():
        for method in item.keys() - {'parameters'}:
            item[method]['parameters'].remove(web_openapi.VERSION)
    sent = []
    for number, found in enumerate(schemathesis.openapi.from_dict(document).get_all_operations()):
        @hypothesis.seed(number)
        @hypothesis.settings(max_examples=2, deadline=None, database=None, phases=[hypothesis.Phase.generate],
                             suppress_health_check=list(hypothesis.HealthCheck))
        @hypothesis.given(found.ok().as_strategy())
        def send(case):
            path = '/v3' + case.formatted_path.partition('#')[0]
            body = case.body if isinstance(case.body, dict) else None
            query = urllib.parse.urlencode(case.query or {}, doseq=True)
            answer = api.call(case.method, f'{path}?{query}', body, who='admin')
            assert answer.status_int < 500, (case.method, path, body)
            sent.append(case.operation.label)
        send()
    assert len({*sent}) == len(handlers.ROUTES)


def _types(api):
    kind = api.made('/v3/types', 'volume_type', {'name': 't', 'os-volume-type-access:is_public': False}, 'admin')
    path = f'/v3/types/{kind}'
    for who in ('member', 'admin'):
        for end in ('', '/extra_specs', '/os-volume-type-access', '/encryption'):
            api.call('GET', path + end, who=who)
        api.call('GET', '/v3/types?limit=1', who=who, status=200)
    api.call('PUT', path, {'volume_type': {'description': 'd'}}, 'admin', 200)
    api.call('POST', path + '/extra_specs', {'extra_specs': {'multiattach': '<is> True'}}, 'admin', 200)
    api.call('GET', path + '/extra_specs/multiattach', who='admin', status=200)
    api.call('PUT', path + '/extra_specs/multiattach', {'multiattach': '<is> True'}, 'admin', 200)
    api.call('DELETE', path + '/extra_specs/multiattach', who='admin', status=202)
    for action in ('addProjectAccess', 'removeProjectAccess'):
        api.call('POST', path + '/action', {action: {'project': PROJECT}}, 'admin', 202)
        api.call('GET', path + '/os-volume-type-access', who='admin', status=200)
    api.call('POST', path + '/encryption', {'encryption': {'provider': 'luks'}}, 'admin', 200)
    api.call('GET', path + '/encryption', who='admin', status=200)
    api.call('GET', path + '/encryption/cipher', who='admin', status=200)
    api.call('PUT', path + '/encryption/provider', {'encryption': {'key_size': 256}}, 'admin', 200)
    api.call('DELETE', path + '/encryption/provider', who='admin', status=202)
    api.call('DELETE', path, who='admin', status=202)


def _qos(api):
    path = '/v3/qos-specs/' + api.made('/v3/qos-specs', 'qos_specs', {
        'name': 'q', 'consumer': 'front-end', 'read_iops_sec': '100'}, 'admin')
    kind = api.made('/v3/types', 'volume_type', {'name': 'of-qos'}, 'admin')
    api.call('GET', path, who='admin', status=200)
    api.call('PUT', path, {'qos_specs': {'write_iops_sec': '5'}}, 'admin', 200)
    api.call('PUT', path + '/delete_keys', {'keys': ['write_iops_sec']}, 'admin', 202)
    api.call('GET', f'{path}/associate?vol_type_id={kind}', who='admin', status=202)
    api.call('GET', path + '/associations', who='admin', status=200)
    api.call('GET', f'{path}/disassociate?vol_type_id={kind}', who='admin', status=202)
    api.call('GET', path + '/disassociate_all', who='admin', status=202)
    api.call('DELETE', path, who='admin', status=202)


def _managed(api):
    for path in ('/os-volume-manage', *(['/manageable_volumes'] if api.version else [])):
        volume = '/v3/volumes/' + api.made('/v3/volumes', 'volume', {'size': 1})
        api.call('POST', volume + '/action', {'os-unmanage': {}}, 'admin', 202)
        file = api.call('GET', '/v3' + path, who='admin', status=200).json['manageable-volumes'][0]
        api.call('GET', f'/v3{path}/detail', who='admin', status=200)
        api.call('POST', '/v3' + path, {'volume': {
            'host': 'nova@embedded#default', 'ref': file['reference']}}, 'admin', 202)


def _volumes(api):
    volume = api.made('/v3/volumes', 'volume', {'size': 1, 'name': 'v', 'metadata': {'a': 'b'}})
    path = f'/v3/volumes/{volume}'
    api.made('/v3/volumes', 'volume', {'source_volid': volume})
    for end in ('', '/detail', '/summary', '?limit=1&with_count=1', '/detail?sort=name:asc&metadata={"a":"b"}'):
        for who in ('member', 'admin', 'other'):
            api.call('GET', '/v3/volumes' + end, who=who)
    for who in ('member', 'admin', 'other'):
        for end in ('', '/metadata', '/encryption', '/encryption/encryption_key_id'):
            api.call('GET', path + end, who=who)
    api.call('PUT', path, {'volume': {'display_name': 'w', 'description': 'd'}}, status=200)
    api.call('PUT', path, {'volume': {'size': 2}}, status=400)
    api.call('POST', path + '/metadata', {'metadata': {'c': 'd'}}, status=200)
    api.call('PUT', path + '/metadata', {'metadata': {'e': 'f'}}, status=200)
    api.call('DELETE', path + '/metadata/e', status=200)
    for action, body, who, status in (
            ('os-extend', {'new_size': 2}, 'member', 202), ('os-set_bootable', {'bootable': 'true'}, 'member', 200),
            ('os-set_image_metadata', {'metadata': {'k': 'v'}}, 'member', 200),
            ('os-show_image_metadata', None, 'member', 200), ('os-unset_image_metadata', {'key': 'k'}, 'member', 200),
            ('os-update_readonly_flag', {'readonly': True}, 'member', 202),
            ('os-update_readonly_flag', {'readonly': False}, 'member', 202),
            ('os-reset_status', {'status': 'error'}, 'member', 403),
            ('os-volume_upload_image', {'image_name': 'i'}, 'member', 202),
            ('os-reset_status', {'status': 'error'}, 'admin', 202), ('os-force_delete', None, 'admin', 202)):
        api.call('POST', path + '/action', {action: body}, who, status)
        api.call('GET', '/v3/volumes/detail', who=who, status=200)


def _copies(api):
    volume = api.made('/v3/volumes', 'volume', {'size': 1})
    snapshot = api.made('/v3/snapshots', 'snapshot', {'volume_id': volume, 'name': 's'})
    path = f'/v3/snapshots/{snapshot}'
    for end in ('/snapshots', '/snapshots/detail?limit=1', f'/snapshots/{snapshot}', f'/snapshots/{snapshot}/metadata'):
        api.call('GET', '/v3' + end, status=200)
    api.call('PUT', path, {'snapshot': {'name': 't'}}, status=200)
    api.call('POST', path + '/metadata', {'metadata': {'c': 'd'}}, status=200)
    api.call('PUT', path + '/metadata', {'metadata': {'e': 'f'}}, status=200)
    api.call('DELETE', path + '/metadata/e', status=200)
    for action, body, who in (('os-update_snapshot_status', {'status': 'error'}, 'service'),
                              ('os-reset_status', {'status': 'available'}, 'admin')):
        api.call('POST', path + '/action', {action: body}, who, 202)
    api.call('POST', path + '/action', {'os-force_delete': None}, 'admin', 202)
    api.call('DELETE', '/v3/snapshots/' + api.made('/v3/snapshots', 'snapshot', {'volume_id': volume}), status=202)
    backup = api.call('POST', '/v3/backups', {'backup': {'volume_id': volume}}, status=202).json['backup']['id']
    api.wait_for(backup)
    for end in ('', '/detail'):
        api.call('GET', '/v3/backups' + end, status=200)
    api.call('PUT', f'/v3/backups/{backup}', {'backup': {'name': 'n'}}, status=200)
    api.call('POST', f'/v3/backups/{backup}/restore', {'restore': {}}, status=202)
    api.wait_for(backup)
    api.call('POST', f'/v3/backups/{backup}/action', {'os-reset_status': {'status': 'error'}}, 'admin', 202)
    api.call('DELETE', f'/v3/backups/{backup}', status=202)
    backup = api.call('POST', '/v3/backups', {'backup': {'volume_id': volume}}, status=202).json['backup']['id']
    api.call('POST', f'/v3/backups/{backup}/action', {'os-force_delete': {}}, 'admin', 202)
    for path in ('/v3/os-volume-transfer', '/v3/volume-transfers'):
        api.made(path, 'transfer', {'volume_id': api.made('/v3/volumes', 'volume', {'size': 1})})
        offer = api.call('POST', path, {'transfer': {'volume_id': api.made('/v3/volumes', 'volume', {'size': 1})}},
                         status=202).json['transfer']
        for end in ('', '/detail', '/' + offer['id']):
            api.call('GET', path + end, status=200)
        api.call('POST', f'{path}/{offer["id"]}/accept', {'accept': {'auth_key': offer['auth_key']}}, 'other', 202)
        offer = api.made(path, 'transfer', {'volume_id': api.made('/v3/volumes', 'volume', {'size': 1})})
        api.call('DELETE', f'{path}/{offer}', status=202)
    api.call('DELETE', '/v3/volumes/' + api.made('/v3/volumes', 'volume', {'size': 1}), status=202)


def _attachments(api):
    volume = api.made('/v3/volumes', 'volume', {'size': 1})
    body = {'volume_uuid': volume, 'instance_uuid': SERVER}
    made = api.made('/v3/attachments', 'attachment', body, 'service')
    for end in ('', '/detail', '/' + made):
        api.call('GET', '/v3/attachments' + end, status=200)
    connector = {'host': 'h1', 'ip': '192.0.2.1', 'mountpoint': '/dev/vdb'}
    api.call('PUT', f'/v3/attachments/{made}', {'attachment': {'connector': connector}}, 'service', 200)
    api.call('POST', f'/v3/attachments/{made}/action', {'os-complete': None}, 'service', 204)
    api.call('GET', f'/v3/volumes/{volume}', who='admin', status=200)
    for action in ('os-begin_detaching', 'os-roll_detaching'):
        api.call('POST', f'/v3/volumes/{volume}/action', {action: None}, 'service', 202)
    api.call('DELETE', f'/v3/attachments/{made}', who='service', status=200)
    action = f'/v3/volumes/{volume}/action'
    for name, given in (('os-reserve', None), ('os-unreserve', None), ('os-attach', {
            'instance_uuid': SERVER, 'mountpoint': '/dev/vdb', 'mode': 'rw'}), ('os-detach', {})):
        api.call('POST', action, {name: given}, 'service', 202)
