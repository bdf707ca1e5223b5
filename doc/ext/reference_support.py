"""The page of what each hypervisor's driver does, from the capabilities of the drivers (nova/virt/driver.py)."""
import importlib

import rst

# name of the driver: class
DRIVERS = {'libvirt': 'nova.virt.libvirt.driver.LibvirtDriver',
           'libvirt LXC': 'nova.virt.libvirt.containers.driver.ContainerDriver',
           'ironic': 'nova.virt.ironic.driver.IronicDriver', 'fake': 'nova.virt.fake.FakeDriver'}
LOG = 'View the log of the serial console'
WITHOUT = {'ironic': {LOG}}              # rows without a feature that a driver refuses all the same
MANDATORY, OPTIONAL, CHOICE = 'mandatory', 'optional', 'choice'
# what users and operators do, how much a driver must do it, its feature (None: every driver must), the test of the
# contract of drivers that shows it (None: tests of its own do)
ROWS = (
    ('Launch a server', MANDATORY, None, 'test_spawn_runs_a_guest_that_boots'),
    ('Shut a server down, start it', MANDATORY, None, 'test_power_off_and_on'),
    ('Reboot a server', OPTIONAL, None, 'test_reboot'),
    ('Delete a server', MANDATORY, None, 'test_destroy_leaves_nothing_and_can_be_repeated'),
    ("A guest's state", MANDATORY, None, 'test_events_tell_when_a_guest_goes_off_by_itself'),
    ("A host's state", OPTIONAL, None, 'test_resources_are_plausible'),
    (LOG, CHOICE, None, 'test_spawn_runs_a_guest_that_boots'),
    ('Pause a server (stop its CPUs), unpause it', OPTIONAL, 'pause', 'test_pause_and_unpause'),
    ('Suspend a server, resume it', OPTIONAL, 'suspend', 'test_suspend_and_resume'),
    ('Save a snapshot of the disk, shelve a server', OPTIONAL, 'snapshot', 'test_snapshot'),
    ('Rescue a server', OPTIONAL, 'rescue', 'test_rescue_and_back'),
    ('Rescue a server whose devices stay as they are', OPTIONAL, 'stable_rescue', 'test_a_stable_rescue_and_back'),
    ('Set the password of the administrator', OPTIONAL, 'password', 'test_a_password_is_changed'),
    ('Bring file systems to rest while volumes are copied', OPTIONAL, 'quiesce', 'test_rest_and_its_end'),
    ("Make a guest's kernel dump its memory", OPTIONAL, 'crash_dump', 'test_a_crash_dump_leaves_a_guest'),
    ('Diagnostics', OPTIONAL, 'diagnostics', 'test_diagnostics_have_every_name'),
    ('Attach and detach a port', OPTIONAL, 'interfaces', 'test_a_port_comes_and_goes'),
    ('Consoles that users type at', CHOICE, 'consoles', 'test_a_console_is_somewhere'),
    ('Attach, detach and swap a volume', OPTIONAL, 'volumes', None),
    ('Encrypt local disks, each server with a key of its own', OPTIONAL, 'encrypted_disks', None),
    ('Open encrypted volumes (LUKS)', OPTIONAL, 'encrypted_volumes', None),
    ('Shared file systems', OPTIONAL, 'shares', None),
    ('Resize a server, migrate it while it is off', OPTIONAL, 'resize', 'test_a_resize_and_its_confirmation'),
    ('Give a running server more CPUs and memory', OPTIONAL, 'growth', None),
    ('Live-migrate a server', OPTIONAL, 'live_migration', None),
    ('Extend a volume that a guest uses', OPTIONAL, 'extend_volume', None),
    ('Snapshots of volumes that the hypervisor helps with', OPTIONAL, 'assisted_snapshots', None),
    ('Power and maintenance of the host', OPTIONAL, 'host_control', None),
    ('Fetch images ahead of time', OPTIONAL, 'image_cache', None),
    ('Take over a guest that another program has made', OPTIONAL, 'adoption', None),
)


def page():
    """Lines of the page."""
    lines = [*rst.heading('Hypervisor support matrix'), 'What the driver of each hypervisor does; the API refuses the '
             'rest with 501 or 409. The suite ``nova/tests/contract/driver_contract.py`` runs on every driver, and on '
             'libvirt with real guests; the test that shows a row stands beside it. A row without one is shown by '
             'tests of its own.', '']
    found = {name: capabilities(path) for name, path in DRIVERS.items()}
    return [*lines, *rst.table(('What', 'Status', 'Feature', 'Test of the contract', *found), [
        (rst.escaped(what), status, rst.literal(feature or ''), rst.literal(test or ''),
         *('no' if what in WITHOUT.get(name, ()) else _mark(feature, able) for name, able in found.items()))
        for what, status, feature, test in ROWS],
        ' '.join(['30', '10', '14', '30', *['8'] * len(found)]))]


def capabilities(path):
    """{feature: bool} of a driver; None when what it needs is not installed here."""
    module, _, name = path.rpartition('.')
    try:
        return getattr(importlib.import_module(module), name).capabilities()
    except ImportError:
        return None


def _mark(feature, able):
    if able is None:
        return 'unknown: its library is not installed'
    return 'yes' if feature is None or able[feature] else 'no'
