"""POST /os-scheduler/explain: what would become of a request, and nothing becomes of anything."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import uuid

import pytest
import sqlalchemy as sa

from nova import context
from nova import exception
from nova import utils
from nova.cmd.manage import main as manage
from nova.db.tables import cell as tables_cell
from nova.db.tables import network as tables_network
from nova.network.rest import networks
from nova.network.rest import request
from nova.network.rest import subnet_pools
from nova.scheduler import interface
from nova.tests import core
from nova.tests.functional import base
from nova.tests.support.placement_explain import Fixture
from nova.tests.support.placement_explain import PATH


@pytest.fixture
def cloud(tmp_path):
    fixture = Fixture(tmp_path)
    yield fixture
    fixture.close()


def by_name(explanation):
    return {row['name']: row for row in explanation['filters']}


def test_explanation_shows_hosts_filters_weights_and_choice(cloud):
    cloud.disable('host1')
    cloud.change_host('host2', memory_mb_used=8000)
    cloud.change_host('host3', memory_mb_used=4096)
    found = cloud.explain()
    assert (found['hosts'], found['remaining'], found['reason']) == (4, 2, None)
    assert found['requested'] == {'vcpus': 1, 'memory_mb': 512, 'local_gb': 1}
    filters = by_name(found)
    assert filters['ComputeFilter'] | {'passed': 3, 'removed': 1, 'applies': True} == filters['ComputeFilter']
    assert filters['ComputeFilter']['hosts'] == [{'host': 'host1', 'node': 'node1', 'reason': 'is down or disabled'}]
    assert filters['RamFilter']['hosts'] == [
        {'host': 'host2', 'node': 'node2', 'reason': 'lacks 320 MB of memory'}]
    assert filters['RamFilter']['reason'] == 'has too little free memory (largest free 192 MB, asked 512 MB)'
    assert filters['DiskFilter']['removed'] == 0 and filters['DiskFilter']['reason'] is None
    assert [row['host'] for row in found['ranking']] == ['host4', 'host3']
    assert found['choices'] == [{'host': 'host4', 'node': 'node4', 'availability_zone': 'nova'}]
    for row in found['ranking']:
        assert row['weight'] == pytest.approx(sum(row['weights'].values()))
        assert row['weights'].keys() == found['weighers'].keys()
    assert {miss['host']: [lack['filter'] for lack in miss['failed_filters']] for miss in found['nearest']} == {
        'host1': ['ComputeFilter'], 'host2': ['RamFilter']}
    assert found['nearest'][0]['host'] == 'host2'        # what lacks the least comes first


def test_explanation_gives_the_reason_when_no_host_is_valid(cloud):
    found = cloud.explain(cloud.body(min_count=3, max_count=3))
    assert len(found['choices']) == 3 and found['reason'] is None
    for number in (1, 2, 3, 4):
        cloud.change_host(f'host{number}', memory_mb_used=7600)
    found = cloud.explain(cloud.body(min_count=5, max_count=5))
    assert found['choices'] == [] and len(found['ranking']) == 4
    assert found['reason'] == ('Only 4 of 5 servers have room. 4 hosts: 4 have too little free memory '
                               '(largest free 80 MB, asked 512 MB).')


@pytest.mark.threads
def test_nothing_is_written(cloud):
    group = cloud.client(version='2.64').post('/os-server-groups', {'server_group': {
        'name': 'g', 'policy': 'anti-affinity'}}).json['server_group']['id']
    with_group = {**cloud.body(min_count=2), 'os:scheduler_hints': {'group': group}}
    volume = cloud.add_volume(size=1)
    with_volume = cloud.body(block_device_mapping_v2=[
        {'uuid': cloud.image_id, 'source_type': 'image', 'destination_type': 'local', 'boot_index': 0},
        {'uuid': volume, 'source_type': 'volume', 'destination_type': 'volume'}])
    existing, spec = cloud.create()
    cloud.scheduler.methods.select_destinations(cloud.owner, spec, [existing])
    messages = len(cloud.conductor.sent)
    before = cloud.everything()
    for body in (cloud.body(), with_group, with_volume, cloud.body(max_count=9), {'server_id': existing}):
        assert cloud.explain(body)['choices']
    cloud.explain(cloud.body(flavorRef='nope'), code=400)
    assert cloud.everything() == before and len(cloud.conductor.sent) == messages


def _prepare_automatic_networks(conn, conf, api_db):
    """Leave the project no network to use; let it get one automatically."""
    deps, admin = request.Deps(conf, api_db), context.admin_context()
    conn.execute(sa.update(tables_network.networks).values(shared=False, project_id='f' * 32))

    def make(kind, **values):
        return kind.create(conn, deps, admin, kind.parse({**values, 'project_id': 'f' * 32}, 'create'))
    public = make(networks.NETWORKS, **{'name': 'public', 'router:external': True, 'is_default': True})
    make(networks.SUBNETS, network_id=public, cidr='172.24.4.0/24', ip_version=4)
    make(subnet_pools.POOLS, name='ten', prefixes=['10.0.0.0/8'], shared=True, is_default=True)


def _networks(cloud):
    """Return the names of the project's networks."""
    c = tables_network.networks.c
    with cloud.api_db.reader() as conn:
        return conn.execute(sa.select(c.name).where(c.project_id == base.PROJECT)).scalars().all()


def test_automatic_network_is_created_for_servers_and_not_for_explanations(cloud):
    cloud.api_db.run(_prepare_automatic_networks, cloud.conf, cloud.api_db)
    user, body = cloud.client(version='2.37'), cloud.body(networks='auto')
    assert cloud.explain(body, version='2.37')['choices']
    assert _networks(cloud) == []
    assert user.post('/servers', body).status == 202
    assert _networks(cloud) == ['auto_allocated_network']


def test_refused_server_gets_no_automatic_network(cloud):
    cloud.api_db.run(_prepare_automatic_networks, cloud.conf, cloud.api_db)
    cloud.admin().put(f'/os-quota-sets/{base.PROJECT}', {'quota_set': {'instances': 0}})
    assert cloud.client(version='2.37').post('/servers', cloud.body(networks='auto')).status == 403
    assert _networks(cloud) == []


def test_the_project_s_quota_is_not_asked(cloud):
    cloud.admin().put(f'/os-quota-sets/{base.PROJECT}', {'quota_set': {'instances': 0}})
    assert cloud.explain()['choices']


def test_the_seed_repeats_the_decision_that_the_real_placement_makes(cloud):
    """All hosts are equal: the uuid alone decides."""
    chosen = []
    while len(chosen) < 8 or len({*chosen}) == 1 and len(chosen) < 64:   # by chance, many choose the same host
        server, spec = cloud.create()
        told = cloud.explain({**cloud.body(), 'seed': server})
        assert told == cloud.explain({**cloud.body(), 'seed': server}) and told['seed'] == server
        selections, = cloud.scheduler.methods.select_destinations(cloud.owner, spec, [server])
        assert told['choices'] == [{'host': selections[0].host, 'node': selections[0].node,
                                    'availability_zone': selections[0].availability_zone}]
        ranked = [row['host'] for row in told['ranking']]
        assert [selection.host for selection in selections] == ranked[:len(selections)]
        chosen.append(selections[0].host)
        cloud.cells.default.db.run(_forget, server)
    assert len({*chosen}) > 1                            # it does depend on the uuid


def _forget(conn, server):
    """As if it had never been placed."""
    conn.execute(sa.update(tables_cell.compute_nodes).values(
        vcpus_used=0, memory_mb_used=0, local_gb_used=0, running_vms=0, usage_change_number=utils.change_number()))
    conn.execute(sa.delete(tables_cell.instances).where(tables_cell.instances.c.uuid == server))


def test_an_existing_server_is_placed_without_its_own_share(cloud):
    server, spec = cloud.create()
    selections, = cloud.scheduler.methods.select_destinations(cloud.owner, spec, [server])
    own = selections[0].host
    for number in (1, 2, 3, 4):
        cloud.change_host(f'host{number}', memory_mb_used=8192)         # its own one by its own share
    found = cloud.explain({'server_id': server})
    assert [row['host'] for row in found['choices']] == [own]
    assert (found['seed'], found['remaining']) == (server, 1)
    other = str(uuid.uuid4())
    assert cloud.explain({'server_id': server, 'seed': other.upper()})['seed'] == other


def test_explanation_pages_its_hosts(cloud):
    found = cloud.explain(query='?limit=3')
    rest = cloud.explain({**cloud.body(), 'seed': found['seed']}, query='?limit=3&offset=3')
    assert [len(found['ranking']), len(rest['ranking'])] == [3, 1]
    assert {row['host'] for row in found['ranking'] + rest['ranking']} == {'host1', 'host2', 'host3', 'host4'}
    cloud.change_host('host1', memory_mb_used=8192)
    cloud.change_host('host2', memory_mb_used=8192)
    first, second = (by_name(cloud.explain(query=f'?limit=1&offset={number}'))['RamFilter'] for number in (0, 1))
    assert {first['hosts'][0]['host'], second['hosts'][0]['host']} == {'host1', 'host2'}
    assert first['removed'] == second['removed'] == 2
    assert cloud.explain(query='?limit=0')['ranking'] == []


@pytest.mark.parametrize('body', [
    {}, {'server_id': 'x'}, {'server_id': None}, {'server': {}, 'server_id': str(uuid.UUID(int=1))}, {'seed': 'x'},
    {'server': {'name': 'x'}}, {'server': None}, {'server_id': str(uuid.UUID(int=1)), 'unknown': 1},
    {'server_id': str(uuid.UUID(int=1)), 'os:scheduler_hints': {'group': str(uuid.UUID(int=2))}}])
def test_invalid_explanation_requests_return_400(cloud, body):
    assert cloud.admin().post(PATH, body).status == 400


def test_invalid_explanation_requests_are_refused(cloud):
    cloud.explain({**cloud.body(), 'seed': 'no-uuid'}, code=400)
    cloud.explain(query='?offset=-1', code=400)
    cloud.explain(query='?unknown=1', code=400)
    cloud.explain({'server_id': str(uuid.UUID(int=1))}, code=404)
    cloud.explain(cloud.body(imageRef=str(uuid.UUID(int=1))), code=400)
    for who in (cloud.client(), cloud.client(roles=('manager', 'member', 'reader'))):
        assert who.post(PATH, cloud.body()).status == 403
        assert who.post(PATH, {'server_id': str(uuid.UUID(int=1))}).status == 403
    cloud.services.scheduler = core.Client(core.Bus(), interface.INTERFACE)
    answer = cloud.admin().post(PATH, cloud.body())
    assert answer.status == 503 and answer.headers['retry-after']


def test_explanation_names_a_full_group(cloud):
    client = cloud.client(version='2.64')
    group = client.post('/os-server-groups', {'server_group': {'name': 'g', 'policy': 'anti-affinity'}}).json[
        'server_group']['id']
    body = {**cloud.body(), 'os:scheduler_hints': {'group': group}}
    assert len(cloud.explain({**body, 'server': {**body['server'], 'min_count': 4}})['choices']) == 4
    found = cloud.explain({**body, 'server': {**body['server'], 'min_count': 5}})
    assert found['choices'] == []
    assert '4 have a server of the group with the policy anti-affinity already' in found['reason']


def test_forcing_a_host_asks_for_room_only(cloud):
    cloud.disable('host3')
    found = cloud.explain(cloud.body(availability_zone='nova:host3'))
    filters = by_name(found)
    assert not filters['ComputeFilter']['applies'] and filters['RamFilter']['applies']
    assert [row['host'] for row in found['choices']] == ['host3']
    with pytest.raises(exception.NoValidHost):
        cloud.scheduler.methods.select_destinations(cloud.owner, _full(cloud), [str(uuid.uuid4())])


def _full(cloud):
    cloud.change_host('host3', memory_mb_used=8192)
    answer = cloud.admin(project=base.PROJECT).post('/servers', cloud.body(availability_zone='nova:host3'))
    assert answer.status == 202, answer.body
    return cloud.conductor.sent[-1][2]['spec']


# ---- nova-manage placement explain ---------------------------------------------

class State:
    """A state path with databases and the cloud in it; called with arguments: the command's (code, output, errors)."""

    def __init__(self, directory):
        self._directory, self.file = directory, directory / 'body.json'
        assert self('db', 'sync')[0] == self('api_db', 'sync')[0] == 0
        self.cloud = Fixture(directory)

    def __call__(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = manage.main([*map(str, arguments), '--state-path', str(self._directory)])
        return code, out.getvalue(), err.getvalue()


@pytest.fixture
def state(tmp_path):
    made = State(tmp_path)
    yield made
    made.cloud.close()


def test_the_command_explains_a_body(state):
    state.cloud.disable('host1')
    state.cloud.change_host('host2', memory_mb_used=8000)
    state.cloud.change_host('host3', memory_mb_used=4096)
    state.file.write_text(json.dumps(state.cloud.body(networks='none')))
    assert state('host', 'list')[0] == 0                 # the first that asks the cells notes the one there is
    before = state.cloud.everything()
    code, out, err = state('placement', 'explain', '--file', state.file, '--seed', uuid.UUID(int=7))
    assert (code, err) == (0, '')
    lines = {line.split()[0]: line for line in out.splitlines() if line}
    assert lines['4'] == ('4 hosts, of which 2 remain. Requested: 1 vcpus, 512 memory_mb, 1 local_gb. '
                          f'Seed: {uuid.UUID(int=7)}')
    assert 'is down or disabled: host1' in lines['ComputeFilter'] and 'DiskFilter' not in out
    assert lines['host4'].split()[:3] == ['host4', 'node4', 'nova'] and out.index('host4') < out.rindex('host3')
    assert lines['Choice:'] == 'Choice: host4 (node4) in zone nova'
    assert state.cloud.everything() == before


def test_the_command_explains_a_server_and_says_when_there_is_no_host(state):
    server, spec = state.cloud.create()
    state.cloud.scheduler.methods.select_destinations(state.cloud.owner, spec, [server])
    code, out, _err = state('placement', 'explain', '--server', server, '-f', 'json')
    assert code == 0 and json.loads(out)['seed'] == server
    for number in (1, 2, 3, 4):
        state.cloud.change_host(f'host{number}', local_gb=0)
    code, out, _err = state('placement', 'explain', '--server', server)
    assert code == 3 and 'No valid host: 4 hosts: 4 have too little free disk' in out
    assert 'Nearest: host1 lacks 1 GB of disk' in out and 'Choice' not in out


def test_the_command_s_mistakes_are_sentences(state):
    state.file.write_text('no json')
    for arguments, sentence in (
            ((), 'Specify either'), (('--file', state.file), 'is not valid JSON'),
            (('--file', '/nowhere'), 'No such file'),
            (('--server', 'x', '--file', state.file), 'Specify either'), (('--server', 'x'), "It is not a 'uuid'"),
            (('--server', uuid.UUID(int=1)), 'could not be found')):
        code, out, err = state('placement', 'explain', *arguments)
        assert (code, out) == (1, '') and sentence in err and len(err.splitlines()) == 1, err


# ---- the example of the documentation --------------------------------------------

EXAMPLE = pathlib.Path(__file__).parents[3] / 'doc' / 'source' / 'admin' / 'placement-explained.txt'


def example(state):
    """What the page shows: a server that finds a host, and one that is too large for all of them."""
    state.cloud.disable('host1')
    state.cloud.change_host('host2', memory_mb_used=7936)
    state.cloud.change_host('host3', memory_mb_used=4096, vcpus_used=8)
    body = state.cloud.body(networks='none')
    large = state.cloud.admin().post('/flavors', {'flavor': {
        'name': 'large', 'id': 'large', 'ram': 8704, 'vcpus': 4, 'disk': 1}})
    assert large.status == 200
    command = ('placement', 'explain', '--file', state.file, '--seed', '6f0d8e0f-97a3-4fd1-b5a1-0f2c9a3f6b21')
    text = ''
    for wanted in (body, {'server': {**body['server'], 'flavorRef': 'large'}}):
        state.file.write_text(json.dumps(wanted))
        code, out, _err = state(*command)
        text += f'$ nova-manage placement explain --file body.json --seed {command[-1]}\n{out}$ echo $?\n{code}\n\n'
    return text.rstrip() + '\n'


def test_the_documentation_shows_what_the_command_prints(state):
    """Where this fails after a change that is meant: python -m nova.tests.functional.test_placement_explain"""
    if not EXAMPLE.parent.is_dir():
        pytest.skip('the documentation is not part of an installed nova')
    assert example(state) == EXAMPLE.read_text(encoding='utf-8')


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as _directory:
        _state = State(pathlib.Path(_directory))
        EXAMPLE.write_text(example(_state), encoding='utf-8')
        _state.cloud.close()
    sys.stdout.write(EXAMPLE.read_text(encoding='utf-8'))
