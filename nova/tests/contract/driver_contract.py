"""What every driver must do, as tests: a test module inherits DriverContract and gives it a ``rig`` fixture.

    class TestFake(DriverContract):
        @pytest.fixture
        def rig(self): ...

The rig has

    driver                     a driver after init_host, with a callback of ``events`` watched
    events                     list of (uuid, power state), appended by the driver's callback
    image                      dict as ImageSource.show gives it, of an image that boots
    uploads                    {image id: (bytes, disk format)}: what the driver uploaded through its ImageSource
    boot_seconds               how long a guest may take to print its first line
    leftovers(uuid)            names of all that the host still has of a guest
    halt(instance)             make the guest power off by itself, or None when the driver cannot do that
    booted(instance)           wait until its system is up
    vif()                      a VIF that can be plugged
    ports(instance)            ids of the ports that the guest has, in their order
"""
import io
import json
import uuid

from PIL import Image
import pytest

from nova import exception
from nova import objects
from nova import states
from nova.compute import screenshots
from nova.tests.support.waiting import wait_for
from nova.virt import driver


def make_instance(**values):
    """An Instance with every field that drivers read."""
    return objects.Instance(**{
        'uuid': str(uuid.uuid4()), 'project_id': 'a-project', 'user_id': 'a-user', 'display_name': 'a <server> & co',
        'hostname': 'a-server', 'vm_state': 'active', 'vcpus': 1, 'memory_mb': 128, 'root_gb': 1, 'ephemeral_gb': 0,
        'flavor': {'name': 'tiny', 'swap': 0}, 'image_id': None, 'kernel_id': None, 'ramdisk_id': None,
        'image_properties': {}, 'metadata': {}, 'network_info': [], 'numa_topology': None, **values})


class DriverContract:
    """Inherit it; see the module."""

    @pytest.fixture
    def instance(self, rig):
        made = make_instance()
        yield made
        rig.driver.destroy(None, made, [])

    @pytest.fixture
    def guest(self, rig, instance):
        """An instance whose guest runs."""
        self.spawn(rig, instance)
        return instance

    @staticmethod
    def spawn(rig, instance, **values):
        rig.driver.spawn(None, instance, driver.SpawnRequest(**{'image': rig.image, 'network_info': [], **values}))

    @staticmethod
    def assert_state(rig, instance, state):
        assert rig.driver.power_state(instance) == state
        assert rig.driver.guests()[instance.uuid] == rig.driver.guest_state(instance.uuid) == state

    def test_spawn_runs_a_guest_that_boots(self, rig, guest):
        self.assert_state(rig, guest, states.RUNNING)
        output = wait_for(lambda: rig.driver.console_output(guest), rig.boot_seconds, 'console output')
        assert isinstance(output, bytes)

    def test_spawn_again_starts_afresh(self, rig, guest):
        self.spawn(rig, guest)
        self.assert_state(rig, guest, states.RUNNING)
        assert list(rig.driver.guests()).count(guest.uuid) == 1

    def test_destroy_leaves_nothing_and_can_be_repeated(self, rig, guest):
        assert rig.leftovers(guest.uuid)
        rig.driver.destroy(None, guest, [])
        assert guest.uuid not in rig.driver.guests() and rig.driver.guest_state(guest.uuid) is None
        with pytest.raises(exception.GuestNotFound):
            rig.driver.power_state(guest)
        assert rig.leftovers(guest.uuid) == []
        rig.driver.destroy(None, guest, [])

    def test_destroy_of_an_unknown_guest_is_no_error(self, rig):
        rig.driver.destroy(None, make_instance(), [])

    def test_a_guest_that_lost_its_definition_starts_again(self, rig, guest):
        rig.driver.destroy(None, guest, [], keep_disks=True)
        rig.driver.power_on(None, guest, [])
        self.assert_state(rig, guest, states.RUNNING)

    def test_power_off_and_on(self, rig, guest):
        for _ in range(2):
            rig.driver.power_off(guest)
            self.assert_state(rig, guest, states.SHUTDOWN)
        for _ in range(2):
            rig.driver.power_on(None, guest, [])
            self.assert_state(rig, guest, states.RUNNING)

    def test_power_off_with_a_timeout_ends(self, rig, guest):
        rig.driver.power_off(guest, timeout=1)
        self.assert_state(rig, guest, states.SHUTDOWN)

    @pytest.mark.parametrize('hard', [False, True])
    def test_reboot(self, rig, guest, hard):
        rig.driver.reboot(None, guest, [], hard)
        self.assert_state(rig, guest, states.RUNNING)

    def test_hard_reboot_starts_a_guest_that_is_off(self, rig, guest):
        rig.driver.power_off(guest)
        rig.driver.reboot(None, guest, [], True)
        self.assert_state(rig, guest, states.RUNNING)

    def test_pause_and_unpause(self, rig, guest):
        feature = self.needs(rig, driver.Pause)
        for _ in range(2):
            feature.pause(guest)
            self.assert_state(rig, guest, states.POWER_PAUSED)
        for _ in range(2):
            feature.unpause(guest)
            self.assert_state(rig, guest, states.RUNNING)

    def test_suspend_and_resume(self, rig, guest):
        feature = self.needs(rig, driver.Suspend)
        for _ in range(2):
            feature.suspend(guest)
            self.assert_state(rig, guest, states.POWER_SUSPENDED)
        for _ in range(2):
            feature.resume(None, guest, [])
            self.assert_state(rig, guest, states.RUNNING)

    def test_hard_reboot_of_a_suspended_guest(self, rig, guest):
        feature = self.needs(rig, driver.Suspend)
        feature.suspend(guest)
        rig.driver.reboot(None, guest, [], True)
        self.assert_state(rig, guest, states.RUNNING)

    def test_destroy_of_a_suspended_guest_leaves_nothing(self, rig, guest):
        feature = self.needs(rig, driver.Suspend)
        feature.suspend(guest)
        rig.driver.destroy(None, guest, [])
        assert rig.leftovers(guest.uuid) == []

    @pytest.mark.parametrize('running', [True, False])
    def test_snapshot(self, rig, guest, running):
        feature = self.needs(rig, driver.Snapshot)
        if not running:
            rig.driver.power_off(guest)
        steps, image_id = [], str(uuid.uuid4())
        feature.snapshot(None, guest, image_id, steps.append)
        assert steps == [states.IMAGE_PENDING_UPLOAD, states.IMAGE_UPLOADING]
        data, disk_format = rig.uploads[image_id]
        assert data and disk_format in ('raw', 'qcow2')
        self.assert_state(rig, guest, states.RUNNING if running else states.SHUTDOWN)

    @pytest.mark.parametrize('runs', [True, False])
    def test_a_resize_and_its_confirmation(self, rig, guest, runs):
        feature = self.needs(rig, driver.Resize)
        self.resize(rig, guest, runs)
        feature.confirm_migration(None, guest, [])
        assert feature.resize_backups() == []
        self.assert_state(rig, guest, states.RUNNING if runs else states.SHUTDOWN)
        feature.confirm_migration(None, guest, [])

    @pytest.mark.parametrize('runs', [True, False])
    def test_a_resize_and_its_revert(self, rig, guest, runs):
        feature = self.needs(rig, driver.Resize)
        self.resize(rig, guest, runs)
        for _ in range(2):
            feature.drop_migrated(None, guest, [])
            assert guest.uuid not in rig.driver.guests() and feature.resize_backups() == [guest.uuid]
        for _ in range(2):
            feature.finish_revert_migration(None, guest, [], [], runs)
            self.assert_state(rig, guest, states.RUNNING if runs else states.SHUTDOWN)
        assert feature.resize_backups() == []

    def test_destroy_removes_what_a_resize_keeps(self, rig, guest):
        feature = self.needs(rig, driver.Resize)
        self.resize(rig, guest, True)
        rig.driver.destroy(None, guest, [])
        assert feature.resize_backups() == [] and rig.leftovers(guest.uuid) == []

    def test_a_guest_that_was_sent_is_none_of_the_hosts(self, rig, guest):
        feature = self.needs(rig, driver.Resize)
        guest.host = rig.driver.host
        feature.accept_guest(None, guest, guest.flavor)
        sent = feature.send_guest(None, guest, 'elsewhere', [], 0)
        assert json.loads(json.dumps(sent)) == sent == feature.send_guest(None, guest, 'elsewhere', [], 0)
        assert guest.uuid not in rig.driver.guests() and feature.resize_backups() == [guest.uuid]
        with pytest.raises(exception.GuestNotFound):
            feature.send_guest(None, make_instance(), 'elsewhere', [], 0)
        with pytest.raises(exception.GuestNotFound):
            feature.finish_revert_migration(None, make_instance(), [], [], True)

    @staticmethod
    def resize(rig, guest, runs):
        """Both ends of a move on this host, done twice, as after a crash."""
        feature = rig.driver.features[driver.Resize]
        if not runs:
            rig.driver.power_off(guest)
        for _ in range(2):
            sent = feature.send_guest(None, guest, rig.driver.host, [], 0)
        for _ in range(2):
            feature.finish_migration(None, guest, sent, driver.SpawnRequest(image=rig.image, network_info=[]), runs)
        assert feature.resize_backups() == [guest.uuid]
        assert rig.driver.power_state(guest) == (states.RUNNING if runs else states.SHUTDOWN)

    def test_a_port_comes_and_goes(self, rig, guest):
        """Where the guest is off; test_a_system_that_is_up has one that runs."""
        self.needs(rig, driver.Interfaces)
        rig.driver.power_off(guest)
        self.port(rig, guest)
        self.assert_state(rig, guest, states.SHUTDOWN)

    @staticmethod
    def port(rig, guest):
        """Attach and detach a port, each twice, as after a crash."""
        before, vif = rig.ports(guest), rig.vif()
        for _ in range(2):
            rig.driver.features[driver.Interfaces].attach_interface(None, guest, vif)
            assert rig.ports(guest) == [*before, vif['id']]
        for _ in range(2):
            rig.driver.features[driver.Interfaces].detach_interface(None, guest, vif)
            assert rig.ports(guest) == before

    def test_a_port_without_a_guest(self, rig):
        feature = self.needs(rig, driver.Interfaces)
        unknown = make_instance()
        with pytest.raises(exception.GuestNotFound):
            feature.attach_interface(None, unknown, rig.vif())
        feature.detach_interface(None, unknown, rig.vif())

    def test_rescue_and_back(self, rig, guest):
        feature = self.needs(rig, driver.Rescue)
        rig.driver.power_off(guest)
        for _ in range(2):
            feature.rescue(None, guest, [], rig.image, 'secret', [])
            self.assert_state(rig, guest, states.RUNNING)
        for _ in range(2):
            feature.unrescue(None, guest, [])
            self.assert_state(rig, guest, states.RUNNING)

    @pytest.mark.parametrize('device, bus', [('disk', 'usb'), ('cdrom', 'ide')])
    def test_a_stable_rescue_and_back(self, rig, guest, device, bus):
        self.needs(rig, driver.StableRescue)
        image = {**rig.image, 'properties': {'hw_rescue_device': device, 'hw_rescue_bus': bus}}
        rig.driver.features[driver.Rescue].rescue(None, guest, [], image, 'secret', [])
        self.assert_state(rig, guest, states.RUNNING)
        rig.driver.features[driver.Rescue].unrescue(None, guest, [])
        self.assert_state(rig, guest, states.RUNNING)

    def test_destroy_of_a_rescued_guest_leaves_nothing(self, rig, guest):
        feature = self.needs(rig, driver.Rescue)
        feature.rescue(None, guest, [], rig.image, 'secret', [])
        rig.driver.destroy(None, guest, [])
        assert rig.leftovers(guest.uuid) == []

    def test_a_system_that_is_up(self, rig, instance):
        """It takes a password, rests and goes on, gets and loses a port, and goes off by itself; the driver says so.

        All of it by one guest: a boot costs more than the rest.
        """
        instance.image_properties = {'hw_qemu_guest_agent': 'yes'}
        self.spawn(rig, instance, image={**rig.image, 'properties': instance.image_properties})
        rig.booted(instance)
        if driver.Password in rig.driver.features:
            for _ in range(2):
                rig.driver.features[driver.Password].set_admin_password(instance, 'secret')
        if driver.Quiesce in rig.driver.features:
            rig.driver.features[driver.Quiesce].quiesce(instance)
            self.assert_state(rig, instance, states.RUNNING)
            for _ in range(2):
                rig.driver.features[driver.Quiesce].unquiesce(instance)
        if driver.Interfaces in rig.driver.features:
            self.port(rig, instance)
        self.assert_state(rig, instance, states.RUNNING)
        if rig.halt is not None:                  # None: guests of this driver do not go off by themselves
            rig.halt(instance)
            wait_for(lambda: (instance.uuid, states.SHUTDOWN) in rig.events, rig.boot_seconds, 'the event')
            self.assert_state(rig, instance, states.SHUTDOWN)

    def test_a_crash_dump_leaves_a_guest(self, rig, guest):
        feature = self.needs(rig, driver.CrashDump)
        feature.trigger_crash_dump(guest)
        assert guest.uuid in rig.driver.guests()

    def test_diagnostics_have_every_name(self, rig, guest):
        feature = self.needs(rig, driver.Diagnostics)
        found = feature.diagnostics(guest)
        assert set(found) - {'guest_interfaces'} == {'hypervisor', 'hypervisor_os', 'uptime', 'cpu_details',
                                                     'disk_details', 'nic_details', 'memory_details'}
        assert len(found['cpu_details']) == guest.vcpus and found['disk_details']
        assert set(found['cpu_details'][0]) == {'id', 'time', 'utilisation'}
        assert set(found['disk_details'][0]) == {'read_bytes', 'read_requests', 'write_bytes', 'write_requests',
                                                 'errors_count'}
        assert set(found['memory_details']) == {'maximum', 'used'} and found['memory_details']['maximum'] > 0

    def test_counters_of_a_running_guest_grow(self, rig, guest):
        """A driver without counters has an empty dictionary. Containers have CPU and memory alone."""
        first = rig.driver.usage.guests().get(guest.uuid)
        if first is None:
            pytest.skip('the driver does not know the usage of its guests')
        assert first.run and first.memory_bytes > 0 and first.cpu_ns > 0
        wait_for(lambda: rig.driver.usage.guests()[guest.uuid].cpu_ns > first.cpu_ns)
        later = rig.driver.usage.guests()[guest.uuid]
        assert later.run == first.run and all(
            after >= before for before, after in zip(first[2:], later[2:]) if before is not None)
        assert set(rig.driver.usage.nodes()) <= {node.node for node in rig.driver.resources()}
        rig.driver.power_off(guest)
        assert guest.uuid not in rig.driver.usage.guests()

    def test_a_console_is_somewhere(self, rig, guest):
        feature = self.needs(rig, driver.Consoles)
        places = []
        for kind in ('vnc', 'spice', 'serial', 'mks'):
            try:
                places.append(feature.console(guest, kind))
            except exception.ConsoleTypeUnavailable:
                continue
        assert places
        for place in places:
            assert set(place) == {'host', 'port', 'tls_port', 'internal_access_path', 'password'}
            assert place['host'] and 0 < place['port'] < 65536

    def test_a_picture_of_the_screen(self, rig, guest):
        feature = self.needs(rig, driver.Screenshots)
        with Image.open(io.BytesIO(screenshots.jpeg(feature.screenshot(guest))), formats=['JPEG']) as picture:
            assert picture.width >= 64 and picture.height >= 48
            picture.load()

    def test_operations_on_a_server_without_a_guest_raise_guest_not_found(self, rig):
        unknown = make_instance()
        operations = [rig.driver.power_state, rig.driver.console_output, rig.driver.power_off]
        features = rig.driver.features
        operations += [getattr(features[feature], method) for feature, method in (
            (driver.Pause, 'pause'), (driver.Suspend, 'suspend'), (driver.CrashDump, 'trigger_crash_dump'),
            (driver.Diagnostics, 'diagnostics'), (driver.Screenshots, 'screenshot')) if feature in features]
        for operation in operations:
            with pytest.raises(exception.GuestNotFound):
                operation(unknown)

    def test_resources_are_plausible(self, rig):
        for node in rig.driver.resources():
            assert node.node and node.hypervisor_type and node.hypervisor_version > 0
            assert node.vcpus > 0 and node.memory_mb > 0 and node.local_gb > 0
            assert {'arch', 'model', 'vendor', 'topology', 'features'} <= set(node.cpu_info)
            assert all(len(supported) == 3 for supported in node.supported_instances)

    def test_capabilities_are_the_registered_features(self, rig):
        capabilities = rig.driver.capabilities()
        assert set(rig.driver.features) <= set(driver.FEATURES)
        for feature in driver.FEATURES:
            assert capabilities[driver.name_of(feature)] == (feature in rig.driver.features)

    @staticmethod
    def needs(rig, feature):
        """Return the driver's object for a feature; skip the test of a driver without it."""
        if feature not in rig.driver.features:
            pytest.skip(f'the driver has no {driver.name_of(feature)}')
        return rig.driver.features[feature]
