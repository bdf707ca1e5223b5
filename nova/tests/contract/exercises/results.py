"""What the exercises of the reading path show over HTTP, each after its patch.

Not collected with the other tests: ``test_reading_path.py`` runs it on a copy of the package with the patches in it. So
does a reader who has done the exercises by hand::

    python -m pytest nova/tests/contract/exercises/results.py
"""
import collections.abc
import pathlib
import sys
import typing

import boto3
import numpy as np
import pytest

import nova
from nova.db.networks import networks as db_networks
from nova.db.tables import network as t
from nova.network.host import routers as host_routers
from nova.network.host import state as host_state
from nova.network.linux import router
from nova.network.linux import validators
from nova.scheduler import filters
from nova.scheduler import pipeline
from nova.scheduler import weights
from nova.tests import placement
from nova.tests.functional import cloud

HOSTS = ('left1', 'left2', 'right1')
EXTENSION = pathlib.Path(nova.__file__).parents[1] / 'doc' / 'ext'


@pytest.fixture(scope='module')
def running(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[cloud.Cloud]:
    """A cloud of three hosts with the new filter, if there is one."""
    names = ['ComputeFilter', *({'HostPrefixFilter'} & filters.builtin_filters().keys())]
    with cloud.running(tmp_path_factory.mktemp('exercises') / 'state', HOSTS, host=HOSTS[0], quota__instances=-1,
                       filter_scheduler__enabled_filters=names) as made:
        yield made


@pytest.fixture(scope='module')
def image_id(running: cloud.Cloud) -> str:
    return running.client().upload_image()


def boot(running: cloud.Cloud, image_id: str, hint: str, status: str = 'ACTIVE') -> dict[str, typing.Any]:
    """Create a server with the hint ``host_prefix``; what administrators see of it then."""
    client, admin = running.client(version='2.37'), running.admin()
    answer = client.post('/servers', {
        'server': {'name': 'server', 'imageRef': image_id, 'flavorRef': '42', 'networks': 'none'},
        'os:scheduler_hints': {'host_prefix': hint}})
    assert answer.status_code == 202, answer.text
    return admin.wait_for(answer.json()['server']['id'], status)


@pytest.fixture(scope='module')
def server_id(running: cloud.Cloud, image_id: str) -> str:
    return boot(running, image_id, '')['id']


def test_field(running: cloud.Cloud, server_id: str) -> None:
    """The answer has the field from its microversion on."""
    client = running.client()
    assert client.get(f'/servers/{server_id}', version='2.105').json()['server']['volume_count'] == 0
    assert client.get('/servers/detail', version='2.105').json()['servers'][0]['volume_count'] == 0
    assert 'volume_count' not in client.get(f'/servers/{server_id}', version='2.104').json()['server']


def test_filter(running: cloud.Cloud, image_id: str) -> None:
    """The hint removes hosts, and the fault says why none was left."""
    def host(hint: str) -> str:
        return boot(running, image_id, hint)['OS-EXT-SRV-ATTR:host']
    assert [host('right') for _ in range(3)] == ['right1'] * 3
    assert {host('left') for _ in range(3)} <= {'left1', 'left2'}
    refused = boot(running, image_id, 'middle', 'ERROR')
    assert '3 have a name that does not begin with middle' in refused['fault']['message']


def test_driver_feature(running: cloud.Cloud, server_id: str) -> None:
    """The driver discards the unused blocks of a running server before each snapshot."""
    client = running.client()
    assert client.post(f'/servers/{server_id}/action', {'createImage': {'name': 'small'}}).status_code == 202
    client.wait_for(server_id)
    output = client.post(f'/servers/{server_id}/action', {'os-getConsoleOutput': {}}).json()['output']
    assert output.endswith(': trimmed\n')


def test_action(running: cloud.Cloud, server_id: str) -> None:
    """The driver of the server's host does the action, and its record says so; in other states it is refused."""
    client = running.client()

    def act(name: str, body: typing.Any = None) -> int:
        return client.post(f'/servers/{server_id}/action', {name: body}).status_code
    assert act('flush') == 202
    client.wait_for(server_id)
    output = client.post(f'/servers/{server_id}/action', {'os-getConsoleOutput': {}}).json()['output']
    assert output.endswith(': flushed\n')
    records = client.get(f'/servers/{server_id}/os-instance-actions', version='2.62').json()['instanceActions']
    assert records[0]['action'] == 'flush' and records[0]['message'] is None
    assert act('pause') == 202
    client.wait_for(server_id, 'PAUSED')
    assert act('flush') == 409


def test_weigher() -> None:
    """Of two hosts the one with fewer servers has the larger weight."""
    table = placement.hosts({'running_vms': 3}, {'running_vms': 1})
    found = [each for each in weights.load(placement.conf(filter_scheduler__few_servers_weight_multiplier=2.0))
             if each.name == 'FewServersWeigher']
    view = pipeline.mutable_view(table, placement.request())
    assert weights.weigh(view, np.arange(2), found).tolist() == [0, 2]


def test_ec2_call(running: cloud.Cloud) -> None:
    """A client of EC2 gets the answer of the new operation."""
    client = running.client()
    pair = client.post(f'/identity/v3/users/{client.user_id}/credentials/OS-EC2',
                       {'tenant_id': client.project_id}).json()['credential']
    ec2 = boto3.client('ec2', endpoint_url=f'{running.url}/services/Cloud', region_name='RegionOne',
                       aws_access_key_id=pair['access'], aws_secret_access_key=pair['secret'])
    assert ec2.get_serial_console_access_status()['SerialConsoleAccessEnabled'] is False


def test_resource_field(running: cloud.Cloud) -> None:
    """A volume shows its purpose from the microversion on; a list can be filtered by it."""
    client = running.client()

    def ask(method: str, path: str, body: typing.Any = None, version: str = '3.69') -> typing.Any:
        answer = client.request(method, '/volume/v3' + path, body,
                                headers={'OpenStack-API-Version': f'volume {version}'})
        assert answer.ok, answer.text
        return answer.json()
    ident = ask('POST', '/volumes', {'volume': {'size': 1}})['volume']['id']
    assert ask('GET', f'/volumes/{ident}')['volume']['purpose'] is None
    assert ask('PUT', f'/volumes/{ident}', {'volume': {'purpose': 'scratch'}})['volume']['purpose'] == 'scratch'
    assert [row['id'] for row in ask('GET', '/volumes/detail?purpose=scratch')['volumes']] == [ident]
    assert 'purpose' not in ask('GET', f'/volumes/{ident}', version='3.68')['volume']


def test_port_column(running: cloud.Cloud) -> None:
    """A port shows its purpose, a list can be filtered by it, and the document describes it."""
    client = running.client()

    def ask(method: str, path: str, body: typing.Any = None) -> typing.Any:
        answer = client.request(method, '/network/v2.0' + path, body)
        assert answer.ok, answer.text
        return answer.json()
    network = ask('POST', '/networks', {'network': {'name': 'n'}})['network']['id']
    port = ask('POST', '/ports', {'port': {'network_id': network, 'purpose': 'build'}})['port']
    assert port['purpose'] == 'build'
    assert ask('PUT', f'/ports/{port["id"]}', {'port': {'purpose': 'test'}})['port']['purpose'] == 'test'
    assert ask('GET', '/ports?purpose=test&fields=purpose')['ports'] == [{'purpose': 'test'}]


def test_router_plumbing(running: cloud.Cloud) -> None:
    """A router between networks of different MTUs limits the segments of TCP; its host validates the value."""
    admin = running.admin()

    def ask(method: str, path: str, body: typing.Any) -> typing.Any:
        answer = admin.request(method, '/network/v2.0' + path, body)
        assert answer.ok, answer.text
        return answer.json()
    ident = ask('POST', '/routers', {'router': {'name': 'r'}})['router']['id']
    for number, mtu in enumerate((1300, 1400)):
        network = ask('POST', '/networks', {'network': {'mtu': mtu, 'provider:network_type': 'vxlan'}})['network']['id']
        subnet = ask('POST', '/subnets', {'subnet': {
            'network_id': network, 'ip_version': 4, 'cidr': f'10.{number}.0.0/24'}})['subnet']['id']
        ask('PUT', f'/routers/{ident}/add_router_interface', {'subnet_id': subnet})
    with running.api_db.reader() as conn:
        host = db_networks.get(conn, t.routers, ident)['host']
        loaded, = (each for each in host_routers.load(conn, host).routers if each.id == ident)
    state = host_state.HostState([], [], {}, {}, routers=[loaded])
    assert validators.state('br-nova', [])(host_state.as_json(state)).routers == [loaded]
    assert 'maxseg size > 1240 tcp option maxseg size set 1240' in router.script(loaded)


def test_reference(tmp_path: pathlib.Path) -> None:
    """The reference, which is made of the rows, has all of them."""
    sys.path.insert(0, str(EXTENSION))
    try:
        import reference
        reference.write(type('Sphinx', (), {'srcdir': str(tmp_path)}))
    finally:
        sys.path.remove(str(EXTENSION))
    pages = {page.stem: page.read_text() for page in (tmp_path / 'reference').glob('*.rst')}
    assert '``server.volume_count``\n     - 2.105 on' in pages['api-servers']
    assert '``volume_count``' in pages['microversions']
    assert '``HostPrefixFilter``' in pages['placement'] and '``FewServersWeigher``' in pages['placement']
    assert '``few_servers_weight_multiplier``' in pages['options']
    assert '``ec2_api:GetSerialConsoleAccessStatus``' in pages['policies']
    assert 'Discard unused blocks before a snapshot' in pages['support-matrix']
    assert '``flush``' in pages['states'] and '``nova:servers:flush``' in pages['policies']
