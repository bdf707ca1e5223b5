"""A compute host that somebody has taken over: what it sends to the services that hold the databases.

host2 is the attacker's, host1 has the victim's server. Each message goes over the real bus to the real services.
"""
import contextlib
import uuid as uuidlib

import pytest
import sqlalchemy as sa

from nova import context
from nova import exception
from nova import objects
from nova import states
from nova.compute import interface as compute_interface
from nova.conductor import authority
from nova.conductor import interface as conductor_interface
from nova.db.networks import ports
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.tables import cell as tables_cell
from nova.image import grants
from nova.network import authority as network_authority
from nova.network import interface as network_interface
from nova.rpc import admission
from nova.rpc import interface as rpc_interface
from nova.runtime import metrics
from nova.scheduler import interface as scheduler_interface
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support.waiting import wait_for

REFUSED = (exception.HostForbidden, exception.NotOnHost)
FAULT = {'code': 500, 'message': 'm', 'details': 'd', 'created': '2026-01-01T00:00:00'}
OTHER = '0b7c3c5e-5a0f-4b3e-9a60-3f6a1f3f6d11'
# of those that hosts call, each in host1's name and of its server or move; {name} is filled in
AS_HOST1 = {
    'update_instance': {'values': {'task_state': 'deleting'}, 'expect': {'host': ['host1']}},
    'begin_task': {'event': 'e', 'owner': 'compute:host1', 'deadline_s': 9, 'values': {},
                   'expect': {'host': ['host1']}},
    'end_task': {'event': 'e', 'host': 'host1', 'values': {}, 'expect': {'host': ['host1']}, 'fault': None,
                 'traceback': None},
    'begin_background': {'host': 'host1', 'owner': 'compute:host1', 'deadline_s': 9},
    'end_background': {'event': 'e', 'host': 'host1', 'values': {}, 'error': None, 'traceback': None},
    'release_port_device': {'host': 'host1', 'port_id': OTHER},
    'instance_offloaded': {'event': 'e', 'host': 'host1', 'task_state': 'unshelving', 'fault': None},
    'instance_destroyed': {'host': 'host1'}, 'instances_on_host': {'host': 'host1'},
    'background_on_host': {'host': 'host1'}, 'server_states': {'host': 'host1', 'uuids': []},
    'report_guests': {'host': 'host1', 'guests': [], 'volumes': None, 'replugged': []},
    'list_evacuated': {'host': 'host1'}, 'continue_moves': {'host': 'host1', 'resize_backups': []},
    'allow_share': {'share_id': OTHER, 'host': 'host1'}, 'share_detached': {'share_id': OTHER, 'host': 'host1'},
    'report_power_states': {'host': 'host1', 'states': {}}, 'audit_instance_usage': {'host': 'host1'},
    'report_service': {'host': 'host1', 'binary': 'nova-compute', 'topic': 'compute', 'version': 2},
    'register_service': {'host': 'host1', 'binary': 'nova-compute', 'topic': 'compute', 'version': 2,
                         'identity': OTHER},
    'report_availability': {'host': 'host1', 'reason': 'it is full'},
    'report_counters': {'host': 'host1', 'boot': 'b', 'at': 1.0, 'servers': {}, 'nodes': {}},
    'report_nodes': {'host': 'host1', 'nodes': []}, 'resume_live_migration': {'host': 'host1', 'has_guest': True},
    'evacuated_guest_removed': {'migration_id': 1, 'host': 'host1'},
}
# the same in its own name: of the server of another host
AS_ITSELF = {
    'begin_background': {'host': 'host2', 'owner': 'compute:host2', 'deadline_s': 9},
    'end_task': {'event': 'e', 'host': 'host2', 'values': {'task_state': None}, 'expect': {'host': ['host2']},
                 'fault': FAULT, 'traceback': 't'},
    'end_background': {'event': 'e', 'host': 'host2', 'values': {}, 'error': None, 'traceback': None},
    'release_port_device': {'host': 'host2', 'port_id': OTHER},
    'update_instance': {'values': {'vm_state': 'error'}, 'expect': {'host': ['host2']}},
    'begin_task': {'event': 'e', 'owner': 'compute:host2', 'deadline_s': 9, 'values': {},
                   'expect': {'host': ['host2']}},
    'get_request_spec': {}, 'get_disk_key': {}, 'get_volume_key': {'volume_id': OTHER},
    'get_block_devices': {}, 'check_rebuild': {}, 'complete_volumes': {},
    'disconnect_volumes': {}, 'prepare_volumes': {'connector': {'host': 'host2'}},
    'connect_volume': {'bdm_uuid': OTHER, 'connector': {'host': 'host2'}},
    'get_volume_device': {'bdm_uuid': OTHER}, 'volume_attached': {'bdm_uuid': OTHER},
    'volume_detached': {'bdm_uuid': OTHER}, 'volume_detach_failed': {'bdm_uuid': OTHER},
    'refresh_volume': {'bdm_uuid': OTHER},
    'volume_swapped': {'bdm_uuid': OTHER, 'new_volume_id': OTHER, 'new_attachment_id': OTHER, 'connection_info': {}},
    'volume_swap_failed': {'bdm_uuid': OTHER, 'new_volume_id': OTHER, 'new_attachment_id': OTHER},
    'volume_file_changed': {'volume_id': OTHER, 'file': {'name': 'x', 'format': 'raw'}},
    'reimage_root': {'image_id': OTHER}, 'snapshot_volumes': {'image_id': OTHER},
    'allow_share': {'share_id': OTHER, 'host': 'host2'}, 'share_attached': {'share_id': OTHER, 'status': 'attached'},
    'share_detached': {'share_id': OTHER, 'host': 'host2'},
    'instance_offloaded': {'event': 'e', 'host': 'host2', 'task_state': 'unshelving', 'fault': None},
}
OF_MOVE = {
    'prepare_live_migration': {}, 'move_accepted': {'host': 'host2'}, 'move_refused': {'host': 'host2', 'fault': FAULT},
    'move_sent': {'host': 'host2', 'guest': {}}, 'move_confirmed': {'host': 'host2'},
    'reverted_guest_removed': {'host': 'host2'},
    'move_finished': {'host': 'host2', 'power_state': 1, 'network_info': []},
    'move_reverted': {'host': 'host2', 'power_state': 1, 'network_info': []},
    'move_failed': {'host': 'host2', 'event': 'e', 'fault': FAULT},
    'report_live_migration': {'host': 'host2', 'values': {'status': 'running'}, 'deadline_s': 9},
    'live_migration_arrived': {'host': 'host2'},
    'live_migration_failed': {'host': 'host2', 'fault': FAULT, 'traceback': 't', 'aborted': False},
    'live_migration_finished': {'host': 'host2', 'values': {}, 'fault': None, 'traceback': None},
    'evacuation_finished': {'host': 'host2', 'values': {}},
    'evacuation_failed': {'host': 'host2', 'fault': FAULT, 'traceback': 't'},
}
PORTS = {
    'allocate_for_instance': {'requested_networks': None, 'security_groups': None, 'host': 'host2'},
    'attach_port': {'request': {'port_id': OTHER, 'network_id': None, 'fixed_ip': None, 'tag': None},
                    'attached_by': 'req-1', 'host': 'host2'},
    'find_port': {'port_id': OTHER, 'attached_by': None},
    'detach_port': {'port_id': OTHER, 'attached_by': None, 'host': 'host2'},
    'add_address': {'network_id': OTHER, 'known_addresses': [], 'host': 'host2'},
    'remove_address': {'address': '10.0.0.1', 'host': 'host2'},
    'setup_for_instance': {'host': 'host2'}, 'prepare_for_instance': {'host': 'host2'}, 'network_info': {},
}


class World:
    def __init__(self, cloud):
        self.cloud = cloud
        self.admin = cloud.admin(version='2.90')
        image = self.admin.upload_image()
        self.image = image
        self.uuid, self.own = (self._boot(image, host) for host in ('host1', 'host2'))
        attacker = cloud.bus.of_host('host2')
        self.conductor, self.network, self.compute, self.scheduler = (attacker.client(each.INTERFACE) for each in (
            conductor_interface, network_interface, compute_interface, scheduler_interface))

    def _boot(self, image, host):
        server = self.admin.boot(image, networks='auto', host=host)
        return self.admin.wait_for(server['id'])['id']

    def row(self, uuid=None):
        with self.cloud.cell_db.reader() as conn:
            return instances.get(conn, uuid or self.uuid)

    def state(self):
        """All of the victim that could change."""
        with self.cloud.cell_db.reader() as conn:
            actions = instance_actions.by_instance(conn, self.uuid)
            return (instances.get(conn, self.uuid), actions,
                    [instance_actions.events(conn, action['id']) for action in actions],
                    list(conn.execute(sa.select(tables_cell.block_device_mappings)).all()),
                    list(conn.execute(sa.select(tables_cell.migrations)).all()), self.ports(self.uuid))

    def ports(self, uuid):
        with self.cloud.api_db.reader() as conn:
            return ports.of_device(conn, uuid)

    def instance(self, uuid=None):
        return objects.Instance.from_row(self.row(uuid))

    @property
    def ctx(self):
        """What an attacker would say of himself."""
        return context.admin_context('req-1')

    def move(self, **values):
        """The number of an open move of the victim's server to host3, which is nobody's."""
        row, flavor = self.row(), self.row()['flavor']
        with self.cloud.cell_db.writer() as conn:
            return conn.execute(sa.insert(tables_cell.migrations).values(**{
                'uuid': str(uuidlib.uuid4()), 'instance_uuid': self.uuid, 'source_compute': 'host1',
                'source_node': 'host1', 'dest_compute': 'host3', 'dest_node': 'host3', 'status': 'running',
                'migration_type': 'live-migration', 'created_at': row['created_at'],
                'updated_at': row['created_at'], 'project_id': row['project_id'], 'user_id': row['user_id'],
                'arguments': {}, 'claims_swapped': False, 'old_flavor': flavor,
                'new_flavor': flavor, **values})).inserted_primary_key[0]

    def forget_moves(self):
        with self.cloud.cell_db.writer() as conn:
            conn.execute(sa.delete(tables_cell.migrations))


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('authority') / 'state', ['host1', 'host2'],
                               conductor__reconcile_interval=300, sync_power_state_interval=3600,
                               report_interval=3600, service_down_time=86400) as cloud:
        yield World(cloud)


def refused_so_far(topic):
    return sum(sample.value for metric in metrics.REGISTRY.collect() if metric.name == 'nova_rpc_refused'
               for sample in metric.samples if sample.labels.get('topic') == topic and sample.name.endswith('_total'))


@pytest.mark.parametrize('method', AS_HOST1)
def test_it_does_not_speak_for_another_host(world, method):
    before = world.state()
    arguments = dict(AS_HOST1[method])
    if 'instance_uuid' in conductor_interface.INTERFACE.methods[method].arguments:
        arguments['instance_uuid'] = world.uuid
    with pytest.raises(exception.HostForbidden, match='host2'):
        getattr(world.conductor, method)(world.ctx, **arguments)
    assert world.state() == before


@pytest.mark.parametrize('method', AS_ITSELF)
def test_it_does_not_touch_the_servers_of_another_host(world, method):
    begun = world.cloud.cell_db.run(_open_action, world.uuid) if method == 'end_background' else None
    before = world.state()
    # without a right of its own a write whose condition does not hold finds the server changed
    with pytest.raises(exception.InstanceChanged):
        getattr(world.conductor, method)(world.ctx, instance_uuid=world.uuid, **AS_ITSELF[method])
    assert world.state() == before
    if begun:
        world.cloud.cell_db.run(instance_actions.forget, world.uuid, 'req-1')


def _open_action(conn, uuid):
    instance_actions.insert(conn, context.admin_context('req-1'), [uuid], 'attach_volume', owner='compute:host1',
                            arguments={'bdm_uuid': OTHER})
    return True


@pytest.mark.parametrize('method', OF_MOVE)
def test_it_does_not_touch_the_moves_of_other_hosts(world, method):
    number = world.move()
    before = world.state()
    with pytest.raises(exception.InstanceChanged):
        getattr(world.conductor, method)(world.ctx, migration_id=number, **OF_MOVE[method])
    assert world.state() == before
    world.forget_moves()


@pytest.mark.parametrize('method', PORTS)
def test_it_does_not_touch_the_ports_of_other_servers(world, method):
    row, arguments = network_interface.INTERFACE.methods[method], dict(PORTS[method])
    arguments.update({'instance': world.instance()} if 'instance' in row.arguments else {'instance_uuid': world.uuid})
    before = world.state()
    with pytest.raises(REFUSED):
        getattr(world.network, method)(world.ctx, **arguments)
    assert world.state() == before


@pytest.mark.parametrize('method', ['deallocate_for_instance', 'unbind_ports', 'unprepare_for_instance'])
@pytest.mark.parametrize('host', [None, 'host2'])
def test_it_does_not_take_away_the_ports_of_other_servers(world, method, host):
    if host is None and method != 'deallocate_for_instance':
        return
    before = world.state()
    assert before[-1]
    getattr(world.network, method)(world.ctx, instance_uuid=world.uuid, host=host)
    assert world.state() == before


def test_it_uses_the_networks_of_its_server_s_project_alone(world):
    """The project in the message counts for nothing."""
    demo = world.cloud.client()
    made = world.admin.post('/network/v2.0/networks', {'network': {'name': 'secret', 'project_id': demo.project_id}})
    assert made.status_code == 201, made.text
    network = made.json()['network']['id']
    answer = world.admin.post('/network/v2.0/subnets', {'subnet': {
        'network_id': network, 'cidr': '10.77.0.0/24', 'ip_version': 4}})
    assert answer.status_code == 201, answer.text
    instance = world.instance(world.own)
    instance.project_id = demo.project_id
    with pytest.raises(exception.NovaException) as caught:
        world.network.attach_port(world.ctx, instance=instance, attached_by='req-1', host='host2', request={
            'port_id': str(uuidlib.uuid4()), 'network_id': network, 'fixed_ip': None, 'tag': None})
    assert not isinstance(caught.value, REFUSED)
    assert [port['project_id'] for port in world.ports(world.own)] == [world.admin.project_id]


# ---- what it writes of its own

OWN = {'expect': {'host': ['host2']}}


@pytest.mark.parametrize('column, value', [
    ('project_id', 'p'), ('user_id', 'u'), ('host', 'host1'), ('node', 'n'), ('uuid', OTHER), ('vcpus', 0),
    ('memory_mb', 0), ('flavor', {}), ('image_id', OTHER), ('locked', False), ('key_data', 'k'), ('user_data', 'x'),
    ('created_at', None), ('cell_move', 'x'), ('server_group_id', None), ('id', 1)])
@pytest.mark.parametrize('method', ['update_instance', 'begin_task', 'end_task'])
def test_it_writes_columns_of_hosts_alone(world, method, column, value):
    arguments = {**OWN, 'values': {column: value}, 'instance_uuid': world.own}
    if method == 'begin_task':
        arguments.update(event='e', owner='compute:host2', deadline_s=9)
    if method == 'end_task':
        arguments.update(event='e', host='host2', fault=None, traceback=None)
    before = world.row(world.own)
    with pytest.raises(exception.HostForbidden, match=f'it writes {column}'):
        getattr(world.conductor, method)(world.ctx, **arguments)
    assert world.row(world.own) == before


@pytest.mark.parametrize('fault', [
    'x', [], {}, {**FAULT, 'more': 'x'}, {'message': 'm'}, {**FAULT, 'code': '500'}, {**FAULT, 'code': True},
    {**FAULT, 'code': 7}, {**FAULT, 'message': None}, {**FAULT, 'message': 'm' * 256}, {**FAULT, 'details': ['d']},
    {**FAULT, 'details': 5}, {**FAULT, 'created': 5}, {**FAULT, 'created': '2' * 33},
    {**FAULT, 'final': 'yes'}], ids=range(15))
@pytest.mark.parametrize('method', ['update_instance', 'end_task'])
def test_a_fault_that_is_none_is_refused(world, method, fault):
    arguments = {**OWN, 'instance_uuid': world.own, 'values': {}}
    if method == 'end_task':
        arguments.update(event='e', host='host2', fault=fault, traceback=None)
    else:
        arguments['values'] = {'fault': fault}
    before = world.row(world.own)
    with pytest.raises(exception.HostForbidden, match='fault'):
        getattr(world.conductor, method)(world.ctx, **arguments)
    assert world.row(world.own) == before


def test_it_stores_the_faults_of_its_own_servers(world):
    for fault in ({**FAULT, 'message': 'm' * 255, 'details': 'd' * 65536, 'final': True}, None):
        world.conductor.update_instance(world.ctx, instance_uuid=world.own, values={'fault': fault}, **OWN)
        assert world.row(world.own)['fault'] == fault


def test_long_texts_of_a_host_of_an_earlier_release_are_cut(world):
    world.conductor.update_instance(world.ctx, instance_uuid=world.own, values={
        'fault': {**FAULT, 'details': 'd' * 65537}}, **OWN)
    assert world.row(world.own)['fault'] == {**FAULT, 'details': 'd' * 65536}


@pytest.mark.parametrize('traceback', [5, ['t'], {'t': 1}])
def test_a_traceback_that_is_not_a_text_is_refused(world, traceback):
    with pytest.raises(exception.HostForbidden, match='traceback'):
        world.conductor.end_task(world.ctx, **OWN, instance_uuid=world.own, values={}, event='e', host='host2',
                                 fault=None, traceback=traceback)


@pytest.mark.parametrize('expect', [None, {}, {'host': ['host1', 'host2']}, {'host': None}, {'task_state': [None]}])
def test_a_write_names_its_host(world, expect):
    with pytest.raises(exception.HostForbidden):
        world.conductor.update_instance(world.ctx, instance_uuid=world.uuid, values={'power_state': 4}, expect=expect)


@pytest.mark.parametrize('key', ['shelved_image_id', 'reimage_id', 'anything'])
def test_it_does_not_say_which_images_go_with_a_server(world, key):
    """The image that a server was shelved into is deleted with it, in the name of the system."""
    with pytest.raises(exception.HostForbidden, match=key):
        world.conductor.update_instance(world.ctx, instance_uuid=world.own, values={
            'system_metadata': {key: world.image}}, **OWN)


@pytest.mark.parametrize('action', ['rescue', 'createImage', 'createBackup'])
def test_image_of_another_action_does_not_become_the_shelved_image(world, action):
    with _open_action_of_own(world, action), pytest.raises(exception.HostForbidden, match='shelved_image_id'):
        world.conductor.update_instance(world.ctx, instance_uuid=world.own, values={
            'system_metadata': {'shelved_image_id': world.image}}, **OWN)


def test_image_of_a_rescue_is_not_used_for_a_snapshot(world):
    with _open_action_of_own(world, 'rescue'), pytest.raises(exception.HostForbidden, match='writes image'):
        world.conductor.snapshot_volumes(world.ctx, instance_uuid=world.own, image_id=world.image)


@pytest.mark.parametrize('event', ['compute_rescue_instance', 'compute_snapshot_instance', 'compute_shelve_instance'])
def test_grant_of_a_rescue_is_read_only_for_every_event(world, event):
    with _open_action_of_own(world, 'rescue'):
        begun = world.conductor.begin_task(world.ctx, instance_uuid=world.own, event=event, owner='compute:host2',
                                           deadline_s=9, values={'task_state': None}, **OWN)
    grant = grants.load(begun.image_grant)
    assert (grant.read, grant.write) == ((world.image,), ())


@contextlib.contextmanager
def _open_action_of_own(world, action):
    with world.cloud.cell_db.writer() as conn:
        instance_actions.insert(conn, context.admin_context('req-1'), [world.own], action, owner='compute:host2',
                                arguments={'image_id': world.image})
    try:
        yield
    finally:
        world.cloud.cell_db.run(instance_actions.forget, world.own, 'req-1')


def test_it_removes_the_password_of_a_former_guest_and_sets_none(world):
    world.conductor.update_instance(world.ctx, instance_uuid=world.own, values={
        'system_metadata': {'password': None}}, **OWN)
    with pytest.raises(exception.HostForbidden, match='password'):
        world.conductor.update_instance(world.ctx, instance_uuid=world.own, values={
            'system_metadata': {'password': 'forged'}}, **OWN)


@pytest.mark.parametrize('value', ['x', '', 5, ['2026-01-01T00:00:00'], '2026-01-01T00:00:00+00:00'])
def test_the_time_of_a_shelving_is_a_time_without_a_zone(world, value):
    with pytest.raises(exception.HostForbidden, match='shelved_at'):
        world.conductor.update_instance(world.ctx, instance_uuid=world.own, values={
            'system_metadata': {'shelved_at': value}}, **OWN)


CLIENTS = {'host': 'host1', 'images': {'vms/a_disk': ['10.0.0.1:0/7'], 'volumes/b': None}, 'fenced': None}


def test_it_records_the_clients_of_the_disks_of_its_own_servers(world):
    for value in (CLIENTS, None):
        world.conductor.update_instance(world.ctx, instance_uuid=world.own, values={
            'system_metadata': {'disk_clients': value}}, **OWN)
    with pytest.raises(exception.InstanceChanged):
        world.conductor.update_instance(world.ctx, instance_uuid=world.uuid, values={
            'system_metadata': {'disk_clients': CLIENTS}}, **OWN)


@pytest.mark.parametrize('images', [
    {'vms/a': ['10.0.0.0/8']}, {'vms/a': ['10.0.0.1:6789/0 ; x']}, {'vms/a': ['10.0.0.1:0/7'] * 65}, {'a': None},
    {f'vms/{number}': None for number in range(65)}])
def test_a_record_of_clients_that_is_none_is_refused(world, images):
    with pytest.raises(exception.HostForbidden, match='disk_clients'):
        world.conductor.update_instance(world.ctx, instance_uuid=world.own, values={
            'system_metadata': {'disk_clients': {**CLIENTS, 'images': images}}}, **OWN)


def test_it_records_where_the_guests_of_its_own_servers_find_their_devices(world):
    places = {'fa:16:3e:00:00:01': ['pci', '0000:00:03.0']}
    row = world.conductor.update_instance(world.ctx, instance_uuid=world.own, values={
        'system_metadata': {'device_addresses': places}}, **OWN)
    assert row.system_metadata['device_addresses'] == places
    with pytest.raises(exception.InstanceChanged):
        world.conductor.update_instance(world.ctx, instance_uuid=world.uuid, values={
            'system_metadata': {'device_addresses': places}}, **OWN)
    with pytest.raises(exception.HostForbidden, match='device_addresses'):
        world.conductor.update_instance(world.ctx, instance_uuid=world.own, values={
            'system_metadata': {'device_addresses': {'v1': ['pci', '<script>']}}}, **OWN)


@pytest.mark.parametrize('method', ['reimage_root', 'snapshot_volumes'])
def test_host_cannot_use_images_outside_of_its_tasks(world, method):
    with pytest.raises(exception.HostForbidden):
        getattr(world.conductor, method)(world.ctx, instance_uuid=world.own, image_id=world.image)


def test_volumes_go_to_itself(world):
    with pytest.raises(exception.HostForbidden, match='host1'):
        world.conductor.prepare_volumes(world.ctx, instance_uuid=world.own, connector={'host': 'host1'})
    with pytest.raises(exception.HostForbidden, match='attachment'):
        world.conductor.connect_new_volume(world.ctx, attachment_id=OTHER, connector={'host': 'host2'},
                                           device_name='/dev/vdb')


def test_host_cannot_change_claims_of_its_node(world):
    with pytest.raises(exception.HostForbidden):
        world.conductor.report_nodes(world.ctx, host='host2', nodes=[{'node': 'host2', 'vcpus_used': 0}])
    with pytest.raises(exception.HostForbidden):
        world.conductor.report_service(world.ctx, host='host2', binary='nova-conductor', topic='conductor', version=2)


def test_it_reports_progress_alone(world):
    number = world.move(source_compute='host2', instance_uuid=world.own)
    with pytest.raises(exception.HostForbidden, match='dest_compute'):
        world.conductor.report_live_migration(world.ctx, migration_id=number, host='host2', deadline_s=9,
                                              values={'dest_compute': 'host2'})
    world.forget_moves()


# ---- what others ask for

@pytest.mark.parametrize('interface, rights', [
    (conductor_interface, authority.RIGHTS), (network_interface, network_authority.RIGHTS), (compute_interface, {}),
    (scheduler_interface, {})], ids=lambda each: getattr(each, '__name__', ''))
def test_methods_beyond_the_rights_of_a_host_are_refused(world, interface, rights):
    topic = interface.INTERFACE.topic
    client = {'conductor': world.conductor, 'network': world.network, 'compute': world.compute,
              'scheduler': world.scheduler}[topic]
    server = {'server': 'host1'} if topic == 'compute' else {}
    for name, row in interface.INTERFACE.methods.items():
        if name in rights:
            continue
        before, state = refused_so_far(topic), world.state()
        arguments = {argument: world.uuid if argument == 'instance_uuid' else world.instance()
                     if argument == 'instance' else None for argument in row.arguments}
        if row.call:
            with pytest.raises(exception.HostForbidden, match='control plane'):
                getattr(client, name)(world.ctx, **server, **arguments)
        else:
            getattr(client, name)(world.ctx, **server, **arguments)
            wait_for(lambda before=before: refused_so_far(topic) > before, seconds=20)
        assert refused_so_far(topic) == before + 1
        assert world.state() == state, name


def test_every_row_is_a_method():
    assert authority.RIGHTS.keys() <= conductor_interface.INTERFACE.methods.keys()
    assert network_authority.RIGHTS.keys() <= network_interface.INTERFACE.methods.keys()


def test_a_refusal_is_logged_once(world, caplog):
    for _ in range(3):
        with pytest.raises(exception.NotOnHost):
            world.conductor.get_request_spec(world.ctx, instance_uuid=world.uuid)
    said = [record for record in caplog.records if 'get_request_spec of host host2' in record.getMessage()
            and record.levelname == 'WARNING']
    assert len(said) <= 1


def test_a_context_is_no_more_than_a_host(world):
    """Neither roles nor the system's rights come over the wire."""
    seen = []

    class Witness:
        def __getattr__(self, name):
            return lambda ctx, **arguments: seen.append(ctx)
    echo = rpc_interface.Interface('echo', '1.0', rpc_interface.Method('look', (), call=True))
    server = world.cloud.bus.serve(echo, Witness(), 'one', admission.Admission('echo', {'look': ()}))
    server.start()
    ctx = context.RequestContext(is_admin=True, roles=['admin', 'service'], user_id='victim', project_id='victim',
                                 service_roles=['service'], system_scope='all', request_id='req-9')
    world.cloud.bus.of_host('host2').client(echo).look(ctx)
    world.cloud.bus.client(echo).look(ctx)
    server.stop()
    server.wait(10)
    of_host, of_service = seen
    assert (of_host.is_admin, of_host.roles, of_host.service_roles, of_host.user_id, of_host.project_id,
            of_host.system_scope, of_host.request_id) == (False, [], [], None, None, None, 'req-9')
    assert of_service.is_admin and of_service.user_id == 'victim'


def test_caller_of_a_host_request_is_read_from_the_instance_action(world):
    with world.cloud.cell_db.writer() as conn:
        instance_actions.insert(conn, context.RequestContext(user_id='asker', project_id='of asker',
                                                             request_id='req-5', overwrite=False),
                                [world.own], 'attach_volume', owner='compute:host2')
    admitted = world.cloud.services[0].manager.admission().admit(
        _from_host('req-5'), 'get_block_devices', {'instance_uuid': world.own})
    assert (admitted.user_id, admitted.project_id, admitted.is_admin) == ('asker', 'of asker', False)
    world.cloud.cell_db.run(instance_actions.forget, world.own, 'req-5')


def _from_host(request_id):
    ctx = context.admin_context(request_id)
    ctx.sender_host, ctx.user_id = 'host2', 'somebody'
    return ctx


def test_a_host_finishes_its_step_and_nothing_else(world):
    """A server that has left for host1, its confirmation still to be done by host2 (the source)."""
    number = world.move(source_compute='host2', dest_compute='host1', status='confirming',
                        migration_type='resize', claims_swapped=True)
    arguments = {'event': 'compute_confirm_resize', 'owner': 'compute:host2', 'deadline_s': 9, 'values': {},
                 'expect': {'task_state': [states.RESIZE_CONFIRMING], 'host': ['host1']}}
    with pytest.raises(exception.NotOnHost):                 # nobody has asked for it
        world.conductor.begin_task(world.ctx, instance_uuid=world.uuid, **arguments)
    world.cloud.cell_db.run(instances.update, world.uuid, {'task_state': states.RESIZE_CONFIRMING})
    assert world.conductor.begin_task(world.ctx, instance_uuid=world.uuid, **arguments).uuid == world.uuid
    with pytest.raises(exception.HostForbidden):
        world.conductor.begin_task(world.ctx, instance_uuid=world.uuid, **{
            **arguments, 'values': {'task_state': None}})
    for method in ('get_request_spec', 'get_block_devices', 'disconnect_volumes'):
        with pytest.raises(exception.NotOnHost):
            getattr(world.conductor, method)(world.ctx, instance_uuid=world.uuid)
    with pytest.raises(exception.NotOnHost):
        world.conductor.reverted_guest_removed(world.ctx, migration_id=number, host='host2')
    with pytest.raises(exception.HostForbidden):
        world.conductor.move_sent(world.ctx, migration_id=number, host='host1', guest={})
    world.cloud.cell_db.run(instances.update, world.uuid, {'task_state': None})
    world.forget_moves()
