"""The fake driver keeps the contract of drivers, fails and waits as told, and survives its process."""
import json
import time
import types
import uuid

import pytest

from nova import conf as nova_conf
from nova import exception
from nova import states
from nova.cloud import assembly
from nova.tests import core
from nova.tests import ports as test_ports
from nova.tests.contract import driver_contract
from nova.virt import driver
from nova.virt import fake
from nova.virt.fake import guest_operations


class Uploads:
    def __init__(self):
        self.found = {}

    def upload(self, _context, image_id, path, disk_format, moved=None, give=False):
        with open(path, 'rb') as file:
            self.found[image_id] = (file.read(), disk_format)


def make(path, **options):
    conf = nova_conf.new(files=[], fake__state_dir=str(path), **options)
    made = fake.FakeDriver(conf, 'host1', Uploads())
    made.init_host()
    return made


class TestContract(driver_contract.DriverContract):
    @pytest.fixture
    def rig(self, tmp_path):
        made, events = make(tmp_path), []
        made.watch(lambda uuid, state: events.append((uuid, state)))

        def leftovers(uuid):
            path = tmp_path / 'host1.json'
            return [name for name in (json.loads(path.read_text()) if path.exists() else ()) if name == uuid]
        yield types.SimpleNamespace(
            driver=made, events=events, image=core.IMAGE, uploads=made.images.found, boot_seconds=1,
            leftovers=leftovers, halt=lambda guest: made.machine.change_by_itself(guest.uuid, states.SHUTDOWN),
            booted=lambda guest: None, vif=lambda: {'id': str(uuid.uuid4())},
            ports=lambda guest: made.machine.guests[guest.uuid]['networks'])


def spawn(made):
    instance = driver_contract.make_instance()
    made.spawn(None, instance, driver.SpawnRequest(image=core.IMAGE, network_info=[]))
    return instance


@pytest.mark.parametrize('keep_machine, left', [(False, 0), (True, 1)])
def test_only_a_rebuild_keeps_the_tpm_of_a_destroyed_guest(tmp_path, keep_machine, left):
    made = make(tmp_path)
    made.destroy(None, spawn(made), [], keep_machine=keep_machine)
    assert len(made.machine.tpms) == left


def test_guests_outlive_the_process(tmp_path):
    instance = spawn(make(tmp_path))
    assert make(tmp_path).guests() == {instance.uuid: states.RUNNING}
    other = fake.FakeDriver(make(tmp_path).conf, 'host2', None)
    other.init_host()
    assert other.guests() == {}


@pytest.mark.parametrize('arrives', ['new', 'moved', 'back'])
def test_volumes_and_tpm_outlive_the_process(tmp_path, arrives):
    """They were lost, and a restored database lost the root volumes of its servers."""
    made, instance = make(tmp_path), driver_contract.make_instance()
    volumes = [{'destination_type': 'volume', 'volume_id': 'v', 'device_name': '/dev/vda'}]
    request = driver.SpawnRequest(image=core.IMAGE, network_info=[], block_devices=volumes)
    if arrives == 'new':
        made.spawn(None, instance, request)
    else:
        spawned = spawn(made)
        guest = made.features[driver.Resize].send_guest(None, spawned, None, [], 0)
        if arrives == 'moved':
            made.features[driver.Resize].finish_migration(None, instance, guest, request, True)
        else:
            instance = spawned
            made.features[driver.Resize].finish_revert_migration(None, instance, [], volumes, True)
    again = make(tmp_path)
    assert again.features[driver.Volumes].attached_volumes() == {
        instance.uuid: {'v': {'attachment_id': None, 'device_name': '/dev/vda'}}}
    assert again.machine.guests[instance.uuid]['tpm'] == made.machine.guests[instance.uuid]['tpm'] != ''


def test_start_removes_files_of_killed_snapshots_of_this_host(tmp_path):
    make(tmp_path)
    mine, other = tmp_path / 'snapshot-host1-x', tmp_path / 'snapshot-host2-x'
    mine.touch()
    other.touch()
    make(tmp_path)
    assert not mine.exists() and other.exists()


def test_a_driver_is_named_by_entry_point_or_path():
    def driver_of(name):
        return assembly.virt_driver(nova_conf.new(files=[], compute_driver=name), 'host1', None)
    assert type(driver_of('fake')) is type(driver_of('nova.virt.fake.driver.FakeDriver')) is fake.FakeDriver
    with pytest.raises(exception.InvalidOption, match='Use one of fake, ironic, libvirt, or the path of a class'):
        driver_of('vapour')


def test_fake_driver_applies_configured_failures_and_delays(tmp_path):
    made = make(tmp_path, fake__failures={'spawn': '1'}, fake__delays={'destroy': '0.05'})
    with pytest.raises(exception.VirtError):
        spawn(made)
    assert made.guests() == {}
    begin = time.monotonic()
    made.destroy(None, driver_contract.make_instance(), [])
    assert time.monotonic() - begin >= 0.05


def test_console_ports_of_the_fake_driver_are_outside_of_used_ranges():
    """A listener of another program at such a port was taken for the console of a server."""
    ports = sorted(guest_operations.CONSOLE_PORTS.values())
    assert all(one + guest_operations.PORTS <= following
               for one, following in zip(ports, [*ports[1:], test_ports.SERVERS.start], strict=True))


def test_failures_of_volume_copies_are_those_of_their_operation(tmp_path):
    made = make(tmp_path)
    copies, instance = made.features[driver.VolumeCopies], spawn(made)
    made.machine.failures['create_volume_snapshot'] = exception.VirtError(operation='x', reason='y')
    copies.copy_volume(None, instance, 'v', {'new_file': 'f'})
    assert made.machine.guests[instance.uuid]['copies'] == [['v', 'f', False]]
    made.machine.failures['copy_volume'] = exception.VirtError(operation='x', reason='y')
    with pytest.raises(exception.VirtError):
        copies.copy_volume(None, instance, 'v', {'new_file': 'g'})


def test_power_of_a_host_reports_only_guests_whose_state_has_changed(tmp_path):
    made, events = make(tmp_path), []
    runs, off = spawn(made), spawn(made)
    made.machine.set_state(off, states.SHUTDOWN)
    made.watch(lambda uuid, state: events.append((uuid, state)))
    control = made.features[driver.HostControl]
    control.host_power_action('shutdown')
    assert events == [(runs.uuid, states.SHUTDOWN)]
    control.host_power_action('startup')
    assert events[1:] == [(runs.uuid, states.RUNNING)]
    control.host_power_action('reboot')
    assert len(events) == 2
