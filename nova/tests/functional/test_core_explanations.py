"""Whatever fails for want of a host says why: to its owner in a sentence, to administrators host by host."""
import pytest
import sqlalchemy as sa

from nova import actions
from nova import exception
from nova import states
from nova.db.servers import instance_actions
from nova.db.tables import cell as tables_cell
from nova.objects import faults
from nova.tests import core
from nova.tests.functional import servers
from nova.tests.support import core_evacuation as evacuation
from nova.tests.support import core_live_migration as live
from nova.tests.support import core_moves as test_core_moves
from nova.tests.support import core_rebuild_filters as rebuilding
from nova.tests.support import core_shelve as shelving

HOSTS = ('host1', 'host2', 'host3')
BIG = {**core.FLAVOR, 'flavor_id': '2', 'name': 'big', 'vcpus': 2, 'memory_mb': 4096}


@pytest.fixture
def cloud(tmp_path):
    made = test_core_moves.Cloud(tmp_path, hosts=HOSTS, fake__memory_mb=4096, fake__vcpus=8)
    yield made
    made.close()


def fill(cloud, **used):
    """Let hosts other than host1 have so much memory in use."""
    nodes = tables_cell.compute_nodes
    with cloud.db.writer() as conn:
        for host, memory_mb in used.items():
            conn.execute(sa.update(nodes).where(nodes.c.host == host).values(
                memory_mb_used=memory_mb, change_number=nodes.c.change_number + 1,
                usage_change_number=nodes.c.usage_change_number + 1))


def last_error(cloud, uuid):
    """The newest event of the server's newest action."""
    with cloud.db.reader() as conn:
        action = instance_actions.by_instance(conn, uuid, limit=1)[0]
        event = instance_actions.events(conn, action['id'])[0]
    assert action['message'] == 'Error' and event['result'] == 'Error', (action, event)
    return event


def check(cloud, uuid, *told, fault=True):
    """The sentence that everybody reads names no host; the event, and where it is an internal error the fault, do."""
    row, event = cloud.row(uuid), last_error(cloud, uuid)
    sentence = row['fault']['message']
    assert sentence.startswith('No valid host was found. ') and event['details'] == sentence
    assert not any(host in sentence for host in HOSTS)
    for text in told:
        assert text in event['traceback']
        assert (text in row['fault']['details']) is fault
    return sentence


FULL = ('RamFilter removed 2: have too little free memory (largest free 200 MB, asked 512 MB): host2, host3',
        'Nearest: host3 lacks 312 MB of memory only\nNearest: host2 lacks 412 MB of memory only')


def test_failed_build_explains_the_missing_host(cloud):
    fill(cloud, host1=4096, host2=3996, host3=3896)
    uuid, = cloud.create()
    cloud.settle()
    assert check(cloud, uuid, 'Nearest: host3 lacks 312 MB of memory only', 'RamFilter removed 3') == (
        'No valid host was found. 3 hosts: 3 have too little free memory (largest free 200 MB, asked 512 MB).')


def test_failed_resize_explains_the_missing_host(cloud):
    uuid = live.boot(cloud)
    fill(cloud, host2=200, host3=100)
    cloud.move(uuid, BIG)
    cloud.settle()
    check(cloud, uuid, 'Nearest: host3 lacks 100 MB of memory only\nNearest: host2 lacks 200 MB of memory only',
          'RequestedHostFilter removed 1: is excluded, as the present host or after a failed move: host1')


def test_failed_migration_explains_the_missing_host(cloud):
    uuid = live.boot(cloud)
    fill(cloud, host2=3996, host3=3896)
    cloud.move(uuid)
    cloud.settle()
    check(cloud, uuid, *FULL)


def test_failed_live_migration_names_no_host_to_users(cloud):
    """Its refusal is an answer to who asked, and a fault of a code that shows all of itself: it names no host."""
    uuid = live.boot(cloud)
    fill(cloud, host2=3996, host3=3896)
    live.begin(cloud, uuid)
    with pytest.raises(exception.BadRequest, match='No valid host was found. 3 hosts: 1 is excluded'):
        cloud.conductor.methods.check_and_live_migrate(cloud.ctx, uuid)
    check(cloud, uuid, *FULL, fault=False)
    assert not any(host in str(cloud.row(uuid)['fault']) for host in HOSTS)


def test_failed_evacuation_explains_the_missing_host(cloud):
    uuid = live.boot(cloud)
    fill(cloud, host2=3996, host3=3896)
    evacuation.die(cloud)
    evacuation.evacuate(cloud, uuid)
    cloud.settle()
    check(cloud, uuid, *FULL)


def test_failed_unshelve_explains_the_missing_host(cloud):
    uuid = cloud.boot()
    shelving.shelve(cloud, uuid)
    fill(cloud, host1=4096, host2=3996, host3=3896)
    shelving.unshelve(cloud, uuid)
    check(cloud, uuid, 'RamFilter removed 3', 'Nearest: host3 lacks 312 MB of memory only')


def test_failed_rebuild_explains_the_refusing_filter(tmp_path):
    made = core.Cloud(tmp_path, filter_scheduler__enabled_filters=[
        'ComputeFilter', f'{rebuilding.__name__}.Picky'])
    uuid = made.boot()
    spec = made.conductor.methods.get_request_spec(None, uuid)
    row = made.row(uuid)
    previous = {'image': spec.image, 'columns': {'image_id': row['image_id'], 'image_properties': {}}}
    spec.image = {**core.IMAGE, 'id': rebuilding.BAD}
    made.db.run(core.tasks.begin, made.ctx, uuid, actions.ACTIONS['rebuild'], arguments={'previous': previous},
                values={'image_id': rebuilding.BAD})
    made.client['compute'].rebuild_instance(
        made.ctx, server='host1', instance=core.objects.Instance.from_row(made.row(uuid)), spec=spec,
        preserve_ephemeral=False)
    made.settle()
    check(made, uuid, 'Picky removed 1: does not pass Picky: host1', 'Nearest: host1 does not pass Picky')
    made.close()


def test_owner_reads_the_fault_message_and_admin_its_details(tmp_path):
    """Through the API: the owner has the sentence, an administrator the hosts."""
    api = servers.Servers(tmp_path)
    fault = {'code': 500, 'message': 'No valid host was found. 1 host: 1 is down or disabled.',
             'details': 'NoValidHost: …\nComputeFilter removed 1: is down or disabled: secret-host',
             'created': '2026-01-01T00:00:00Z'}
    server = api.add_server(vm_state=states.ERROR, fault=fault)
    with api.cell_db.writer() as conn:
        instance_actions.insert(conn, api.owner, [server], 'create')
        instance_actions.finish(conn, server, 'conductor_build_instance', error=fault['message'],
                                traceback=fault['details'])
    path = f'/servers/{server}/os-instance-actions/{api.owner.request_id}'
    for version in ('2.1', '2.51', '2.84', '2.104'):
        owner, admin = (who.get(f'/servers/{server}', version=version).json['server']['fault']
                        for who in (api.client(), api.admin()))
        assert owner['message'] == admin['message'] == fault['message']
        assert 'details' not in owner and 'secret-host' in admin['details']
        seen = [who.get(path, version=version) for who in (api.client(), api.admin())]
        assert b'secret-host' not in seen[0].body
        assert 'secret-host' in seen[1].json['instanceAction']['events'][0]['traceback']
    assert seen[1].json['instanceAction']['events'][0]['details'] == fault['message']
    api.close()


@pytest.mark.parametrize('error, shown', [
    (exception.HostUnavailable(host='secret-host'), None),
    (exception.VirtError(operation='spawn', reason='secret-host'), None),
    (exception.ImageNotFound(image_id='i'), 'ImageNotFound: Image i could not be found.')],
    ids=lambda value: type(value).__name__)
def test_faults_name_no_host_to_owners(tmp_path, error, shown):
    """Of any code: a host that went down during a build is a fault with code 503."""
    api = servers.Servers(tmp_path)
    server = api.add_server(vm_state=states.ERROR, fault=faults.fault(error, details='File "/opt/nova" on secret-host'))
    for version in ('2.1', '2.104'):
        for path in (f'/servers/{server}', '/servers/detail'):
            answer = api.client().get(path, version=version)
            fault = (answer.json.get('server') or answer.json['servers'][0])['fault']
            assert fault.get('details') == shown and b'secret-host' not in answer.body
            assert b'secret-host' in api.admin().get(path, version=version).body
    api.close()
