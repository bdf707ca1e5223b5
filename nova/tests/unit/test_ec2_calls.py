"""What the EC2 API makes of the answers of the services behind it, and the rules that its dry runs ask."""
import datetime
import time
import types
import urllib.parse
import uuid
from xml.etree import ElementTree as etree

import orjson
import pytest
import sqlalchemy as sa

from nova import context
from nova.db import engine
from nova.db import schema
from nova.db.tables import ec2 as ec2_tables
from nova.ec2 import calls
from nova.ec2 import client_tokens
from nova.ec2 import dry_runs
from nova.ec2 import errors
from nova.ec2 import ids
from nova.ec2 import operations
from nova.ec2 import protocol
from nova.ec2 import tags
from nova.ec2 import waits
from nova.ec2 import xml_cache
from nova.ec2.images import imports
from nova.ec2.images import listing
from nova.ec2.instances import block_devices
from nova.ec2.instances import metadata_options
from nova.ec2.networks import interfaces
from nova.ec2.volumes import volumes
from nova.hardware import disks

USER = calls.User('token', 'user', 'project', ('member',))


class Services:
    """Answers of the services: a compute API without servers, and a block storage that is as the test wants it."""

    def __init__(self, volume):
        self._volume = volume

    def send(self, _user, service, _method, _path, _headers, _body):
        if service == 'compute':
            return 200, b'{"servers": []}'
        if isinstance(self._volume, Exception):
            raise self._volume
        return self._volume


@pytest.fixture
def api_db(tmp_path):
    db = engine.Database(f'sqlite:///{tmp_path}/api.sqlite')
    schema.sync(db, 'api')
    yield db
    db.dispose()


@pytest.mark.parametrize('key', ['metadata_tokens', 'metadata_hop_limit', 'aws:x', 'ec2:x', '', 'k' * 128])
def test_refused_tag_key_is_explained(key):
    with pytest.raises(errors.Ec2Error) as found:
        tags.checked([{'Key': key, 'Value': 'v'}])
    assert found.value.message == (
        'A tag key must have 1 to 127 characters, must not begin with "aws:" or "ec2:" and must not be '
        '"metadata_hop_limit" or "metadata_tokens"; a value has at most 255 characters.')


@pytest.mark.parametrize('error, level', [(errors.Ec2Error('Gone', 'gone'), 'INFO'), (ValueError('gone'), 'ERROR')])
def test_log_names_the_image_of_an_import_that_ends_early(caplog, error, level):
    def call(*_words, **_named):
        raise error
    queue, work = imports.Imports(), imports._Import(types.SimpleNamespace(call=call), 'image-5', 1)
    work.run = lambda _pieces: work.write({})
    assert queue._places.acquire('p')
    caplog.set_level('INFO', imports.LOG.name)
    queue._work(work, iter(()), 'p')
    assert [record.levelname for record in caplog.records] == [level] and 'image image-5' in caplog.text


def described(api_db, volume):
    req = operations.Request(calls.Caller(Services(volume), USER, {}), ids.Ids(api_db), api_db, 'r', 'u', 'req')
    return tags.describe_tags(req, {})


@pytest.mark.parametrize('value, text', [
    ('2026-11-28T14:34:39Z', '2026-11-28T14:34:39.000Z'), ('2026-11-28T14:34:39.123456', '2026-11-28T14:34:39.123Z'),
    ('2026-11-28T14:34:39+01:00', '2026-11-28T13:34:39.000Z'),
    (datetime.datetime(2026, 11, 28, 14, 34, 39, 999999), '2026-11-28T14:34:39.999Z')])
def test_a_time_has_milliseconds_and_a_zone(value, text):
    assert protocol.time(value) == text


@pytest.mark.parametrize('mapping, found', [
    ('null', None), ('{"a": 1}', None), ('[1]', None), ('[' * 100000, None), ('[{"device_name": "/dev/vda"}]', None),
    ('[{"device_name": "/dev/vdb", "snapshot_id": "s"}]', None), (None, None), (5, None),
    ('[{"device_name": "/dev/vda", "snapshot_id": "s"}]', {'device_name': '/dev/vda', 'snapshot_id': 's'})])
def test_an_owner_of_an_image_may_write_any_mapping(mapping, found):
    assert block_devices._own_root({disks.MAPPING: mapping}, '/dev/vda') == found


def test_describe_tags_works_without_a_volume_service(api_db):
    assert described(api_db, errors.NoService('volume'))['Tags'] == []


@pytest.mark.parametrize('status', [401, 403, 500, 503])
def test_a_refusal_of_the_block_storage_is_no_absence(api_db, status):
    with pytest.raises(errors.ServiceRefused) as error:
        described(api_db, (status, b'{}'))
    assert error.value.status == status
    with pytest.raises(errors.Ec2Error) as error:
        described(api_db, errors.Ec2Error('Unavailable', 'It does not answer.', 503))
    assert error.value.code == 'Unavailable'


def test_services_that_an_all_in_one_does_not_have():
    with pytest.raises(errors.NoService):
        calls.LocalServices(None, None, ['volume']).send(USER, 'volume', 'GET', '/volumes', {}, None)


@pytest.mark.parametrize('status, code', [(400, 'InvalidParameterValue'), (503, 'Unavailable')])
def test_a_token_whose_outcome_is_not_known_is_not_given_back(api_db, status, code):
    """What a service does not answer, it may have done: the same token makes no second volume."""
    req = operations.Request(calls.Caller(Services(None), USER, {}), ids.Ids(api_db), api_db, 'r', 'u', 'req')
    made = []

    def make():
        made.append(True)
        raise errors.ServiceRefused(status, 'no')
    for _number in range(2):
        with pytest.raises((errors.ServiceRefused, errors.Ec2Error)) as error:
            client_tokens.once(req, 'CreateVolume', {'ClientToken': 'a'}, lambda _since: None, make)
        found = error.value if isinstance(error.value, errors.Ec2Error) else errors.of_service(error.value)
        assert found.code == code
    assert len(made) == (2 if status == 400 else 1)


class Rules:
    def __init__(self, *refused):
        self._refused = refused

    def allows(self, _context, rule, target):
        assert target == {'project_id': 'project', 'user_id': 'user'}
        return rule not in self._refused


@pytest.mark.parametrize('method, path, body, rule', [
    ('POST', '/servers', {'server': {'networks': 'auto'}}, 'os_compute_api:servers:create'),
    ('POST', '/servers', {'server': {'networks': [{}]}}, 'os_compute_api:servers:create:attach_network'),
    ('POST', '/servers', {'server': {'block_device_mapping_v2': [{'destination_type': 'volume'}]}},
     'os_compute_api:servers:create:attach_volume'),
    ('POST', '/servers', {'server': {'availability_zone': 'nova:host1'}}, 'os_compute_api:servers:create:forced_host'),
    ('POST', '/servers/1/action', {'os-stop': None}, 'os_compute_api:servers:stop'),
    ('DELETE', '/servers/1', None, 'os_compute_api:servers:delete'),
    ('POST', '/os-keypairs', {'keypair': {}}, 'os_compute_api:os-keypairs:create')])
def test_a_dry_run_asks_the_rule_of_the_write(method, path, body, rule):
    caller = context.RequestContext(user_id='user', project_id='project', overwrite=False)
    for refused, code in (((), 'DryRunOperation'), ((rule,), 'UnauthorizedOperation')):
        with pytest.raises(errors.Ec2Error) as error:
            dry_runs.DryRun(Rules(*refused), caller).stop('compute', method, path, body)
        assert error.value.code == code


def test_a_dry_run_asks_no_rule_of_what_is_not_wanted():
    assert dry_runs.rules_of('POST', '/servers', {'server': {}}) == ['os_compute_api:servers:create']


def test_an_answer_has_what_xml_can_have():
    """Answers are put together as text: what a name brings along must not become elements."""
    text = protocol.answer('DescribeTags', {'Tags': [
        {'Key': 'a<b>&amp;', 'Value': 'ü \U0001f600 \x00\x0b ]]>', 'ResourceId': None}, {'Key': '', 'Value': 'x'}]},
        'req-1 <&>')
    found = etree.fromstring(text)
    space = {'a': 'http://ec2.amazonaws.com/doc/2016-11-15/'}
    assert found.findtext('a:requestId', namespaces=space) == 'req-1 <&>'
    first, second = found.findall('a:tagSet/a:item', space)
    assert [child.text for child in first] == ['a<b>&amp;', 'ü \U0001f600  ]]>']
    assert second.findtext('a:key', namespaces=space) == '' and len(second) == 2


def test_cached_xml_of_a_value_is_not_used_for_another_value():
    """And a list of texts is the list of what they were made of."""
    rows = [{'Key': 'a<b>', 'Value': 'x', 'ResourceId': None}, {'Key': '', 'Value': 'y'}]
    texts = [protocol.item('DescribeTags', 'Tags', row) for row in rows]
    assert protocol.answer('DescribeTags', {'Tags': texts}, 'r') == protocol.answer('DescribeTags', {'Tags': rows}, 'r')
    made = []

    def write(facts):
        made.append(facts)
        return xml_cache.XmlFragment(f'<a>{facts}</a>')
    cache = xml_cache.XmlCache()
    for facts in ([1, 'a'], [1, 'a'], ['1', 'a'], [1, ['a']], [1.0, 'a'], [True, 'a'], [1, 'a', None], [1, 'a']):
        assert cache.get(facts, write) == f'<a>{facts}</a>'
    assert len(made) == 6


def test_xml_cache_is_bounded():
    cache = xml_cache.XmlCache(most=20_000)
    for number in range(100):
        cache.get(number, lambda number: xml_cache.XmlFragment(str(number) * 500))
        assert cache.size <= 20_000
    assert cache.get(0, lambda number: xml_cache.XmlFragment('new')) == 'new'               # gone meanwhile
    assert cache.get(99, lambda number: xml_cache.XmlFragment('new')) == '99' * 500
    for _time in range(2):                                                           # too long to be kept
        assert cache.get('x', lambda _facts: xml_cache.XmlFragment('x' * 5_000)) and cache.size <= 20_000
    assert cache.get(99, lambda number: xml_cache.XmlFragment('new')) == '99' * 500


def test_all_ports_of_many_instances_are_found(api_db):
    """A list of ports ends at a thousand, also where it was not said."""
    rows = [{'id': f'{number:04}', 'device_id': f'server {number}'} for number in range(operations.PAGE + 5)]

    class Ports(Services):
        def send(self, _user, _service, _method, path, _headers, _body):
            after = urllib.parse.parse_qs(path).get('marker', [''])[0]
            return 200, orjson.dumps({'ports': [row for row in rows if row['id'] > after][:operations.PAGE]})
    req = operations.Request(calls.Caller(Ports(None), USER, {}), ids.Ids(api_db), api_db, 'r', 'u', 'req')
    assert len(interfaces.ports_of(req, [row['device_id'] for row in rows])) == len(rows)


def test_a_hop_limit_is_refused_where_proxies_of_neutron_do_not_heed_it(api_db):
    given = {'HttpTokens': 'required', 'HttpPutResponseHopLimit': 1}
    for own in (True, False):
        req = operations.Request(calls.Caller(Services(None), USER, {}), ids.Ids(api_db), api_db, 'r', 'u', 'req',
                                 own_network=own)
        assert metadata_options.items(req, {'HttpTokens': 'required'}) == {'metadata_tokens': 'required'}
        if own:
            assert metadata_options.items(req, given) == {'metadata_tokens': 'required', 'metadata_hop_limit': '1'}
        else:
            with pytest.raises(errors.Ec2Error) as error:
                metadata_options.items(req, given)
            assert error.value.code == 'UnsupportedOperation'


def test_few_requests_wait_for_servers_and_none_for_long(api_db, monkeypatch):
    """Each holds a thread of the HTTP server: tags for servers that are built for ever would have taken all of them."""
    looks = []

    class Building(Services):
        def send(self, _user, _service, _method, path, _headers, _body):
            looks.append(path)
            return 200, b'{"server": {"status": "BUILD"}}'

    def request(**more):
        return operations.Request(calls.Caller(Building(None), USER, {}), ids.Ids(api_db), api_db, 'r', 'u', 'req',
                                  **more)
    monkeypatch.setattr(waits, 'POLL_INTERVAL_S', 0.01)
    req = request()
    assert waits.wait(req, 'one', lambda server: server['status'] == 'BUILD') is True and len(looks) == 1
    monkeypatch.setattr(waits, 'WAIT_S', 0.1)
    begun = time.monotonic()
    assert waits.wait(req, 'one', lambda server: False) is False and time.monotonic() - begun < 30
    looks.clear()
    assert waits.wait(req, 'another', lambda server: True) is False and not looks          # its time is over
    req = request()
    while req.waits.acquire(USER.project_id):
        pass
    assert waits.wait(req, 'one', lambda server: True) is False and not looks              # too many wait already
    assert req.waits.acquire('of another project')


class Storage:
    """A block storage with two pages of volumes, newest first, and the paths that are requested of it."""

    def __init__(self):
        self.asked, self.pages = [], [
            [self.volume(number, 1 if page else 5) for number in range(operations.PAGE)] for page in (0, 1, 2)]
        self.pages[0][0]['metadata'] = {volumes.TOKEN: 'token'}

    @staticmethod
    def volume(number, day):
        return {'id': str(uuid.uuid5(uuid.NAMESPACE_URL, f'{day} {number}')), 'size': 1, 'status': 'available',
                'created_at': f'2026-11-0{day}T00:00:00.000000', 'attachments': [], 'metadata': {}}

    def send(self, _user, _service, method, path, _headers, _body):
        self.asked.append((method, path.partition('?')[0]))
        if '/detail' in path:
            return 200, orjson.dumps({'volumes': self.pages.pop(0)})
        return 200, orjson.dumps({'volume': self.volume(7, 5) if method == 'POST' else {
            **self.volume(7, 5), 'id': path.rpartition('/')[2]}})


@pytest.fixture
def block_storage(api_db):
    storage = Storage()
    return storage, operations.Request(calls.Caller(storage, USER, {}), ids.Ids(api_db), api_db, 'r', 'u', 'req')


def test_one_volume_is_not_looked_for_in_the_list_of_all(block_storage):
    storage, req = block_storage
    idents = [storage.volume(number, 5)['id'] for number in range(operations.MAX_SINGLE_READS + 1)]
    shown = [req.ids.one('vol', ident) for ident in idents]
    found = volumes.describe_volumes(req, {'VolumeIds': shown[:1]})['Volumes']
    assert [row['VolumeId'] for row in found] == shown[:1] and storage.asked == [('GET', f'/volumes/{idents[0]}')]
    storage.asked.clear()
    assert len(volumes.describe_volumes(req, {'VolumeIds': [*shown[:2], shown[0]]})['Volumes']) == 2
    assert len(storage.asked) == 2


def test_a_new_volume_reads_no_list_and_a_repetition_what_is_newer_than_it(block_storage, api_db):
    storage, req = block_storage
    given = {'Size': 1, 'ClientToken': 'token'}
    volumes.create_volume(req, given)
    assert not [path for _method, path in storage.asked if 'detail' in path]
    with api_db.writer() as conn:                    # the first attempt was broken off, long ago
        begun = datetime.datetime(2026, 11, 5)
        conn.execute(sa.update(ec2_tables.ec2_client_tokens).values(uuid=None, created_at=begun, attempted_at=begun))
    storage.asked.clear()
    volumes.create_volume(req, given)
    assert [path for _method, path in storage.asked if 'detail' in path] == ['/volumes/detail'] * 2
    assert ('POST', '/volumes') not in storage.asked


class Images(Services):
    """Images that only the project ``owner`` sees."""

    def __init__(self):
        super().__init__(None)
        self.failures = []                                     # status codes of the next answers

    def send(self, user, _service, _method, path, _headers, _body):
        if self.failures or user.project_id != 'owner':
            return self.failures.pop(0) if self.failures else 404, b'{}'
        return 200, orjson.dumps({'id': path.rpartition('/')[2], 'architecture': 'aarch64', 'os_type': 'linux'})


def test_image_that_one_caller_does_not_see_has_an_architecture_for_another(api_db):
    images, cache = Images(), ids.Ids(api_db)

    def systems(project):
        user = calls.User('token', 'user', project, ('member',))
        return listing.systems(operations.Request(
            calls.Caller(images, user, {}), cache, api_db, 'r', 'u', 'req'), ['image'])
    assert systems('stranger') == {'image': (None, None)}
    images.failures = [503]
    assert systems('owner') == {'image': (None, None)}
    assert systems('owner') == {'image': ('arm64', 'linux')}


def test_full_cache_of_image_properties_is_replaced(api_db):
    cache = ids.Ids(api_db)
    cache.systems = {str(number): ('x86_64', None) for number in range(ids.MAX_CACHED)}
    req = operations.Request(calls.Caller(Images(), calls.User('token', 'user', 'owner', ('member',)), {}), cache,
                             api_db, 'r', 'u', 'req')
    assert listing.systems(req, ['1', 'new']) == {'1': ('x86_64', None), 'new': ('arm64', 'linux')}
    assert cache.systems == {'new': ('arm64', 'linux')}
