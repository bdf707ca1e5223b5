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
"""
import time
import uuid

import pytest

from nova import exception
from nova import objects
from nova import states
from nova.virt import driver


def make_instance(**values):
    """An Instance with every field that drivers read."""
    return objects.Instance(**{
        'uuid': str(uuid.uuid4()), 'project_id': 'a-project', 'user_id': 'a-user', 'display_name': 'a <server> & co',
        'hostname': 'a-server', 'vcpus': 1, 'memory_mb': 128, 'root_gb': 1, 'ephemeral_gb': 0,
        'flavor': {'name': 'tiny', 'swap': 0}, 'image_id': None, 'kernel_id': None, 'ramdisk_id': None,
        'image_properties': {}, 'metadata': {}, 'network_info': [], **values})


def wait_for(condition, seconds, what):
    """Wait until ``condition()`` is true and give its value back."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f'waited {seconds} s for {what}'
        time.sleep(0.05)


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
        assert rig.driver.guests()[instance.uuid] == state

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
        assert guest.uuid not in rig.driver.guests()
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
        self.needs(rig, driver.Pause)
        for _ in range(2):
            rig.driver.pause(guest)
            self.assert_state(rig, guest, states.POWER_PAUSED)
        for _ in range(2):
            rig.driver.unpause(guest)
            self.assert_state(rig, guest, states.RUNNING)

    def test_suspend_and_resume(self, rig, guest):
        self.needs(rig, driver.Suspend)
        for _ in range(2):
            rig.driver.suspend(guest)
            self.assert_state(rig, guest, states.POWER_SUSPENDED)
        for _ in range(2):
            rig.driver.resume(None, guest, [])
            self.assert_state(rig, guest, states.RUNNING)

    def test_hard_reboot_of_a_suspended_guest(self, rig, guest):
        self.needs(rig, driver.Suspend)
        rig.driver.suspend(guest)
        rig.driver.reboot(None, guest, [], True)
        self.assert_state(rig, guest, states.RUNNING)

    def test_destroy_of_a_suspended_guest_leaves_nothing(self, rig, guest):
        self.needs(rig, driver.Suspend)
        rig.driver.suspend(guest)
        rig.driver.destroy(None, guest, [])
        assert rig.leftovers(guest.uuid) == []

    @pytest.mark.parametrize('running', [True, False])
    def test_snapshot(self, rig, guest, running):
        self.needs(rig, driver.Snapshot)
        if not running:
            rig.driver.power_off(guest)
        steps, image_id = [], str(uuid.uuid4())
        rig.driver.snapshot(None, guest, image_id, steps.append)
        assert steps == [states.IMAGE_PENDING_UPLOAD, states.IMAGE_UPLOADING]
        data, disk_format = rig.uploads[image_id]
        assert data and disk_format in ('raw', 'qcow2')
        self.assert_state(rig, guest, states.RUNNING if running else states.SHUTDOWN)

    def test_what_has_no_guest_is_not_found(self, rig):
        unknown = make_instance()
        operations = [rig.driver.power_state, rig.driver.console_output, rig.driver.power_off]
        operations += [rig.driver.pause] if isinstance(rig.driver, driver.Pause) else []
        operations += [rig.driver.suspend] if isinstance(rig.driver, driver.Suspend) else []
        for operation in operations:
            with pytest.raises(exception.GuestNotFound):
                operation(unknown)

    def test_events_tell_when_a_guest_goes_off_by_itself(self, rig, guest):
        if rig.halt is None:
            pytest.skip('the guests of this driver do not go off by themselves')
        rig.halt(guest)
        wait_for(lambda: (guest.uuid, states.SHUTDOWN) in rig.events, rig.boot_seconds, 'the event')
        self.assert_state(rig, guest, states.SHUTDOWN)

    def test_resources_are_plausible(self, rig):
        for node in rig.driver.resources():
            assert node.node and node.hypervisor_type and node.hypervisor_version > 0
            assert node.vcpus > 0 and node.memory_mb > 0 and node.local_gb > 0
            assert {'arch', 'model', 'vendor', 'topology', 'features'} <= set(node.cpu_info)
            assert all(len(supported) == 3 for supported in node.supported_instances)

    def test_capabilities_are_the_mixins(self, rig):
        capabilities = type(rig.driver).capabilities()
        for mixin in driver.MIXINS:
            assert capabilities[mixin.feature] == isinstance(rig.driver, mixin)

    @staticmethod
    def needs(rig, mixin):
        if not isinstance(rig.driver, mixin):
            pytest.skip(f'the driver has no {mixin.feature}')
