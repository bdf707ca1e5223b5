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
GUESTS, CALLS, NONE = 'yes', 'as calls and XML', 'no'
KERNEL = 'the kernel of the tests has no initiator: what os-brick is asked, and the XML of what it gives'
# storage of the libvirt driver: what, its name in the connections or the configuration (None: it has none), how it is
# shown, the test that shows it, what is to be said of it
STORAGE = (
    ('Local disks: qcow2 overlays', 'qcow2', GUESTS, 'integration/test_libvirt.py::TestContract', ''),
    ('Local disks: raw, with shared blocks on XFS and btrfs', 'raw', GUESTS,
     'unit/test_libvirt_reflink.py::test_raw_root_shares_the_blocks_of_its_image', ''),
    ('Local disks in Ceph', 'rbd', GUESTS,
     'integration/test_libvirt_ceph_disks.py::test_a_server_lives_in_the_pool_and_leaves_nothing', ''),
    ('Instances path on storage that hosts share', None, GUESTS,
     'integration/test_libvirt_shared_moves.py::test_shared_disks_are_found_and_stay_where_they_are', ''),
    ('Volumes: files of the host', 'local', GUESTS,
     'integration/test_libvirt_volumes.py::test_a_volume_comes_grows_is_copied_changes_and_goes', ''),
    ('Volumes: NBD over a socket, and over the network with TLS', 'nbd', GUESTS,
     'integration/test_libvirt_exports.py::test_a_guest_writes_over_tls_and_its_host_is_shut_out_at_the_end', ''),
    ('Volumes: Ceph RBD with cephx', 'rbd', GUESTS, 'integration/test_libvirt_ceph.py::test_a_volume_comes_and_goes',
     ''),
    ('Volumes: iSCSI in user space, CHAP', 'iscsi', GUESTS,
     'integration/test_libvirt_iscsi.py::test_a_volume_comes_is_awaited_and_goes',
     'the guest proves itself to the target; that the target proves itself, too, libvirt has no word for'),
    ('Volumes: NFS in user space', 'nfs', GUESTS,
     'integration/test_libvirt_nfs.py::test_a_volume_of_a_server_of_files_that_hangs_for_a_while',
     'raw files; qcow2 files are refused'),
    ('Volumes: iSCSI by the kernel, multipath', 'iscsi', CALLS,
     'unit/test_libvirt_volumes.py::test_what_os_brick_is_asked',
     KERNEL),
    ('Volumes: NVMe over fabrics, multipath', 'nvmeof', CALLS,
     'unit/test_libvirt_volumes.py::test_what_os_brick_is_asked', KERNEL),
    ('Volumes: Fibre Channel, multipath', 'fibre_channel', CALLS,
     'unit/test_libvirt_volumes.py::test_what_os_brick_is_asked', KERNEL),
    ('Limits of local disks, also changed by a resize', None, GUESTS,
     'integration/test_libvirt_growth.py::test_a_running_guest_grows', 'of flavors with a maximum'),
    ('Limits of volumes (QoS of the front-end)', None, CALLS,
     'unit/test_libvirt_volumes.py::test_limits_of_the_block_storage', 'the XML'),
    ('Discard, zeros detected, I/O threads, cache modes', None, GUESTS,
     'integration/test_libvirt_local_disks.py::test_formats_buses_and_threads',
     'QEMU is told so; that zeros of a guest became holes was not seen'),
    ('Snapshots of volumes as chains of files', None, NONE, None,
     'whole copies are made; a request for a chain is refused, and the block storage is told'),
)


def storage_rows():
    """Rows of the table of storage."""
    return [(rst.escaped(what), rst.literal(name or ''), state, rst.literal(test or ''), rst.escaped(words))
            for what, name, state, test, words in STORAGE]


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
        ' '.join(['30', '10', '14', '30', *['8'] * len(found)])),
        '', *rst.heading('Storage of the libvirt driver', '-'),
        'Shown with real guests (yes), or, where the machines of the tests lack what it needs, as what is asked of '
        'os-brick and of libvirt.', '',
        *rst.table(('What', 'Name', 'Shown', 'Test', 'Remarks'), storage_rows(), '30 10 12 30 30')]


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
