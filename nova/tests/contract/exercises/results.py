"""What the exercises of the reading path show over HTTP, each after its patch.

Not collected with the other tests: ``test_reading_path.py`` runs it on a copy of the package with the patches in it. So
does a reader who has done the exercises by hand::

    python -m pytest nova/tests/contract/exercises/results.py
"""
import collections.abc
import pathlib
import sys
import typing

import pytest

import nova
from nova.scheduler import filters
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


def test_reference(tmp_path: pathlib.Path) -> None:
    """The reference, which is made of the rows, has all four."""
    sys.path.insert(0, str(EXTENSION))
    try:
        import reference
        reference.write(type('Sphinx', (), {'srcdir': str(tmp_path)}))
    finally:
        sys.path.remove(str(EXTENSION))
    pages = {page.stem: page.read_text() for page in (tmp_path / 'reference').glob('*.rst')}
    assert '``server.volume_count``\n     - 2.105 on' in pages['api-servers']
    assert '``volume_count``' in pages['microversions']
    assert '``HostPrefixFilter``' in pages['placement']
    assert 'Discard unused blocks before a snapshot' in pages['support-matrix']
    assert '``flush``' in pages['states'] and '``nova:servers:flush``' in pages['policies']
