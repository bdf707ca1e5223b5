"""The page of what each hypervisor's driver does, from the capabilities of the drivers (nova/virt/driver.py)."""
import importlib

import rst
from nova import conf as nova_conf

# name of the driver: class
DRIVERS = {'libvirt': 'nova.virt.libvirt.driver.LibvirtDriver',
           'libvirt LXC': 'nova.virt.libvirt.containers.driver.ContainerDriver',
           'ironic': 'nova.virt.ironic.driver.IronicDriver', 'fake': 'nova.virt.fake.FakeDriver'}
LOG = 'View the log of the serial console'
WITHOUT = {'ironic': {LOG}}              # rows without a feature that a driver refuses all the same
MANDATORY, OPTIONAL, CHOICE, CONDITION = 'mandatory', 'optional', 'choice', 'condition'
# what users and operators do, how much a driver must do it, its feature (None: every driver must), the test of the
# contract of drivers that shows it (None: tests of its own do)
ROWS = (
    ('Launch a server', MANDATORY, None, 'test_spawn_runs_a_guest_that_boots'),
    ('Shut a server down, start it', MANDATORY, None, 'test_power_off_and_on'),
    ('Reboot a server', OPTIONAL, None, 'test_reboot'),
    ('Delete a server', MANDATORY, None, 'test_destroy_leaves_nothing_and_can_be_repeated'),
    ("A guest's state", MANDATORY, None, 'test_a_system_that_is_up'),
    ("A host's state", OPTIONAL, None, 'test_resources_are_plausible'),
    (LOG, CHOICE, None, 'test_spawn_runs_a_guest_that_boots'),
    ('Pause a server (stop its CPUs), unpause it', OPTIONAL, 'pause', 'test_pause_and_unpause'),
    ('Suspend a server, resume it', OPTIONAL, 'suspend', 'test_suspend_and_resume'),
    ('Save a snapshot of the disk, shelve a server', OPTIONAL, 'snapshot', 'test_snapshot'),
    ('Rescue a server', OPTIONAL, 'rescue', 'test_rescue_and_back'),
    ('Rescue a server whose devices stay as they are', OPTIONAL, 'stable_rescue', 'test_a_stable_rescue_and_back'),
    ('Set the password of the administrator', OPTIONAL, 'password', 'test_a_system_that_is_up'),
    ('Bring file systems to rest while volumes are copied', OPTIONAL, 'quiesce', 'test_a_system_that_is_up'),
    ("Make a guest's kernel dump its memory", OPTIONAL, 'crash_dump', 'test_a_crash_dump_leaves_a_guest'),
    ('Diagnostics', OPTIONAL, 'diagnostics', 'test_diagnostics_have_every_name'),
    ('Attach and detach a port', OPTIONAL, 'interfaces', 'test_a_port_comes_and_goes'),
    ('Attach and detach a port that is a device of the host (SR-IOV)', OPTIONAL, 'port_devices', None),
    ('Consoles that users type at', CHOICE, 'consoles', 'test_a_console_is_somewhere'),
    ('See what the screen shows', OPTIONAL, 'screenshots', 'test_a_picture_of_the_screen'),
    ('Attach, detach and swap a volume', OPTIONAL, 'volumes', None),
    ('Encrypt local disks, each server with a key of its own', OPTIONAL, 'encrypted_disks', None),
    ('Open encrypted volumes (LUKS)', OPTIONAL, 'encrypted_volumes', None),
    ('Shared file systems', OPTIONAL, 'shares', None),
    ('Resize a server, migrate it while it is off', OPTIONAL, 'resize', 'test_a_resize_and_its_confirmation'),
    ('Give a running server more CPUs and memory', OPTIONAL, 'growth', None),
    ('Live-migrate a server', OPTIONAL, 'live_migration', None),
    ('Extend a volume that a guest uses', OPTIONAL, 'extend_volume', None),
    ('Copy a volume that a guest uses', OPTIONAL, 'volume_copies', None),
    ('Chains of snapshot files of a volume, for the Block Storage service', OPTIONAL, 'assisted_snapshots', None),
    ('Power and maintenance of the host', OPTIONAL, 'host_control', None),
    ('Fetch images ahead of time', OPTIONAL, 'image_cache', None),
    ('Take over a guest that another program has made', OPTIONAL, 'adoption', None),
)
SHOWN, CALLS = 'yes', 'as calls and XML'
KERNEL = 'the kernel of the tests has no initiator: the requests to os-brick, and the XML of what it gives'
# storage of the libvirt driver: what, its name in the connections or the configuration (None: it has none), how it is
# shown, the test that shows it, what is to be said of it
STORAGE = (
    ('Local disks: qcow2 overlays', 'qcow2', SHOWN, 'integration/test_libvirt.py::TestContract', ''),
    ('Local disks: raw, with shared blocks on XFS and btrfs', 'raw', SHOWN,
     'unit/test_libvirt_reflink.py::test_raw_root_shares_the_blocks_of_its_image', ''),
    ('Local disks in Ceph', 'rbd', SHOWN,
     'integration/test_libvirt_ceph_disks.py::test_a_server_lives_in_the_pool_and_leaves_nothing', ''),
    ('Instances path on storage that hosts share', None, SHOWN,
     'integration/test_libvirt_shared_moves.py::test_shared_disks_are_found_and_stay_where_they_are', ''),
    ('Volumes: files of the host', 'local', SHOWN,
     'integration/test_libvirt_volumes.py::test_a_volume_comes_grows_is_copied_changes_and_goes', ''),
    ('Volumes: NBD over a socket, and over the network with TLS', 'nbd', SHOWN,
     'integration/test_libvirt_exports.py::test_a_guest_writes_over_tls_and_its_host_is_shut_out_at_the_end', ''),
    ('Volumes: Ceph RBD with cephx', 'rbd', SHOWN, 'integration/test_libvirt_ceph.py::test_a_volume_comes_and_goes',
     ''),
    ('Volumes: iSCSI in user space, CHAP', 'iscsi', SHOWN,
     'integration/test_libvirt_storages.py::test_a_target_that_hangs_holds_up_no_other_guest',
     'also as a root disk; the guest proves itself to the target; a connection that demands that the target proves '
     'itself, too (mutual CHAP), is refused: QEMU and libvirt know a name and a password of the initiator alone'),
    ('Volumes: NFS in user space', 'nfs', SHOWN,
     'integration/test_libvirt_storages.py::test_a_guest_boots_from_a_server_of_files',
     'also as a root disk; raw files, and chains of qcow2 files'),
    ('Volumes: iSCSI by the kernel, multipath', 'iscsi', CALLS,
     'unit/test_libvirt_volumes.py::test_os_brick_connector_receives_connect_disconnect_and_extend',
     KERNEL),
    ('Volumes: NVMe over fabrics, multipath', 'nvmeof', CALLS,
     'unit/test_libvirt_volumes.py::test_os_brick_connector_receives_connect_disconnect_and_extend', KERNEL),
    ('Volumes: Fibre Channel, multipath', 'fibre_channel', CALLS,
     'unit/test_libvirt_volumes.py::test_os_brick_connector_receives_connect_disconnect_and_extend', KERNEL),
    ('A volume of several servers (multiattach)', None, SHOWN,
     'integration/test_libvirt_storages.py::test_two_guests_share_a_multiattach_volume', 'embedded ones, as files'),
    ('Encrypted volumes (LUKS)', None, SHOWN,
     'integration/test_libvirt_encrypted_volumes.py::'
     'test_a_guest_boots_from_an_encrypted_volume_and_a_copy_of_another_reads_the_same',
     'embedded ones, as files and over NBD; of Cinder a file with a header of LUKS'),
    ('Limits of local disks, also changed by a resize', None, SHOWN,
     'integration/test_libvirt_growth.py::test_a_running_guest_grows', 'of flavors with a maximum'),
    ('Limits of volumes (QoS of the front-end)', None, CALLS,
     'unit/test_libvirt_volumes.py::test_front_end_qos_specs_limit_the_disk',
     'the XML; the same bounds of local disks are shown with real guests'),
    ('Discard, zeros detected, I/O threads, cache modes', None, SHOWN,
     'integration/test_libvirt_local_disks.py::test_local_disks_have_the_requested_formats_buses_and_threads',
     'QEMU is configured so'),
    ('Snapshots of volumes as chains of files (assisted snapshots)', 'local', SHOWN,
     'integration/test_libvirt_volumes.py::test_snapshots_of_a_volume_are_files_that_lie_on_each_other',
     'made and merged while the guest runs, and while it is off; not of encrypted volumes, and not of several '
     'servers'),
    ('The same over NFS', 'nfs', SHOWN, 'integration/test_libvirt_nfs.py::test_files_on_a_server_lie_on_each_other',
     'with several snapshots a removal needs the server to be off'),
)


def storage_rows():
    """Rows of the table of storage."""
    return [(rst.escaped(what), rst.literal(name or ''), state, rst.literal(test or ''), rst.escaped(words))
            for what, name, state, test, words in STORAGE]

MACHINES, CONTAINERS, IRON, FAKE = DRIVERS
# What guests have that is no feature of a driver: what, status, the drivers whose guests have it, the test that shows
# it (below nova/tests; None: tried by none). The fake driver has guests without anything in them.
GUESTS = (
    ('A config drive', CHOICE, {MACHINES, IRON},
     'integration/test_libvirt.py::test_guest_boots_and_finds_its_config_drive'),
    ('What a config drive would have, as files', CHOICE, {CONTAINERS},
     'integration/test_containers.py::test_files_of_users_are_unpacked_after_the_image'),
    ('Files of users in the disk', OPTIONAL, {MACHINES, CONTAINERS},
     'integration/test_injection.py::test_files_are_in_the_disk'),
    ('A network configuration in the disk', OPTIONAL, {MACHINES},
     'integration/test_injection.py::test_files_are_in_the_disk'),
    ('A root that grows to its disk (disk configuration AUTO)', OPTIONAL, {MACHINES, IRON},
     'unit/test_metadata.py::test_automatic_disk_configuration_lets_the_guest_grow_its_root'),
    ("Bounds of the disks' I/O", OPTIONAL, {MACHINES},
     'integration/test_libvirt_settings.py::test_disk_limits_apply_to_the_guest'),
    ('Bounds of ports', OPTIONAL, {MACHINES},
     'integration/test_libvirt_settings.py::test_port_limits_apply_to_the_guest'),
    ('A screen over VNC', CHOICE, {MACHINES}, 'integration/test_consoles.py::test_vnc_console_shows_typed_text'),
    ('A screen over SPICE', CHOICE, {MACHINES},
     'integration/test_consoles.py::test_browser_types_at_the_spice_console'),
    ('A screen over RDP', CHOICE, set(), None),
    ('A serial port to type at', CHOICE, {MACHINES},
     'integration/test_consoles.py::test_serial_console_shows_typed_text'),
    ('Packet filter and security groups', OPTIONAL, {MACHINES, CONTAINERS},
     'integration/test_network_linux.py::test_rules_select_by_prefix_protocol_and_remote_group'),
    ('Routers, floating addresses', OPTIONAL, {MACHINES, CONTAINERS},
     'integration/test_network_overlay.py::test_router_and_floating_address_reach_a_guest'),
    ('Flat networks', CHOICE, {MACHINES, CONTAINERS},
     'integration/test_network_linux.py::test_dhcp_gives_each_guest_its_own_address'),
    ('VLANs', CHOICE, {MACHINES, CONTAINERS},
     'functional/test_network_vlans.py::test_projects_get_vlans_of_the_ranges_and_do_not_see_which'),
    ('PCI devices of the host', OPTIONAL, {MACHINES},
     'integration/test_libvirt_pci.py::test_guest_starts_with_a_pci_device'),
    ('Shared file systems (virtiofs)', OPTIONAL, {MACHINES},
     'integration/test_libvirt_shares.py::test_a_guest_reads_and_writes_its_share_until_it_is_detached'),
    ('Virtual graphics devices', OPTIONAL, {MACHINES}, 'unit/test_libvirt_mediated.py::test_the_guest_is_given_it'),
    ('NUMA topology, pinned CPUs', OPTIONAL, {MACHINES},
     'integration/test_libvirt_numa.py::test_a_pinned_guest_runs_on_its_cpus'),
    ('UEFI', OPTIONAL, {MACHINES}, 'integration/test_libvirt_settings.py::test_guest_has_its_own_uefi_variables'),
    ('Secure boot', OPTIONAL, {MACHINES},
     'integration/test_libvirt_settings.py::test_the_guest_knows_that_it_was_booted_securely'),
    ('A TPM', OPTIONAL, {MACHINES}, 'integration/test_libvirt_settings.py::test_guest_has_its_own_tpm'),
    ('Encrypted memory (AMD SEV)', OPTIONAL, {MACHINES},
     'unit/test_libvirt_settings.py::test_domain_has_the_element_of_each_guest_option'),
    ('Signed images, trusted certificates', OPTIONAL, {MACHINES},
     'unit/test_image_signatures.py::test_signature_of_a_trusted_certificate_is_accepted'),
    ('Another architecture, emulated', OPTIONAL, {MACHINES},
     'integration/test_libvirt_settings.py::test_guest_of_another_architecture_is_emulated'),
)

# What no guest of the tests has, though a driver does it: rows of GUESTS and ROWS, why, and what is looked at instead
UNTRIED = (
    ('Attach and detach a port that is a device of the host (SR-IOV)',
     'The kernel of the tests has no VFIO (CONFIG_VFIO), and the machine no card with virtual functions.',
     "The XML by libvirt's schema, and its definition in a real libvirt, of a guest that is off; claims, moves and "
     'bindings with fake hosts.'),
    ('PCI devices of the host',
     'No VFIO (CONFIG_VFIO), and no device behind an IOMMU that the machine could spare.',
     'The list that a real libvirt gives, the XML, inventories and claims. The test next to the row runs where '
     'NOVA_TEST_PCI_ADDRESS names a device.'),
    ('Virtual graphics devices', 'No VFIO, and no card whose driver makes mediated devices.',
     "The XML by libvirt's schema, inventories and claims."),
    ('Encrypted memory (AMD SEV)', 'No processor with AMD SEV, and no KVM that guests of the tests could count on.',
     "The XML by libvirt's schema, and what a host says of itself by libvirt."),
    ('VLANs', 'The kernel of the tests has no VLAN devices (CONFIG_VLAN_8021Q).',
     'What is done to the host, and frames with tags that a process puts on in their place.'),
    ('A root that grows to its disk (disk configuration AUTO)',
     'The small guest of the tests has no cloud-init, which grows the root.', 'What the guest is given.'),
    ('Signed images, trusted certificates', 'No guest is needed: a build with a forged signature ends before.',
     'The verification itself.'),
)


def page():
    """Lines of the page."""
    lines = [*rst.heading('Hypervisor support matrix'), 'What the driver of each hypervisor does; the API refuses the '
             'rest with 501 or 409. The suite ``nova/tests/contract/driver_contract.py`` runs on every driver, and on '
             'libvirt with real guests; the test that shows a row stands next to it. A row without one is shown by '
             'tests of its own.', '']
    found = {name: capabilities(path) for name, path in DRIVERS.items()}
    return [*lines, *rst.table(('What', 'Status', 'Feature', 'Test of the contract', *found), [
        (rst.escaped(what), status, rst.literal(feature or ''), rst.literal(test or ''),
         *('no' if what in WITHOUT.get(name, ()) else _mark(feature, able) for name, able in found.items()))
        for what, status, feature, test in ROWS],
        ' '.join(['30', '10', '14', '30', *['8'] * len(found)])),
        '', *rst.heading('What guests have', '-'),
        'Most of it depends on the host, too: its traits say so, and the scheduler goes by them. Fake guests have '
        'nothing in them. What has no test next to it was never tried. Tests of *integration* have real guests; those '
        'of *unit* look at what libvirt and guests are given.', '',
        *rst.table(('What', 'Status', 'Test below nova/tests', *DRIVERS), [
            (rst.escaped(what), status, rst.literal(test or ''), *(_word(name in able) for name in DRIVERS))
            for what, status, able, test in GUESTS], ' '.join(['30', '10', '40', *['8'] * len(DRIVERS)])),
        '', *rst.heading('What the machines of the tests cannot run', '-'),
        'These are done by the drivers that say yes above, and no guest of the tests has had them. QEMU emulates the '
        'processor where a machine lets no process use KVM.', '',
        *rst.table(('What', 'Why', 'What is looked at instead'), [tuple(map(rst.escaped, row)) for row in UNTRIED],
                   '30 40 40'),
        '', *rst.heading('Storage of the libvirt driver', '-'),
        'Shown with real guests (yes), or, where the machines of the tests lack what it needs, as what is requested of '
        'os-brick and of libvirt.', '',
        *rst.table(('What', 'Name', 'Shown', 'Test', 'Remarks'), storage_rows(), '30 10 12 30 30')]


def _word(able):
    return 'yes' if able else 'no'


def capabilities(path):
    """Return {capability: bool} of a driver with the default configuration, or None if its library is missing."""
    module, _, name = path.rpartition('.')
    try:
        driver = getattr(importlib.import_module(module), name)
    except ImportError:
        return None
    return driver(nova_conf.new(files=[]), 'a-host', images=None).capabilities()


def _mark(feature, able):
    if able is None:
        return 'unknown: its library is not installed'
    return _word(feature is None or able[feature])
