"""From the body of a create to what is stored: the pure conversions."""
import pytest

from nova import exception
from nova.api.servers import devices as server_devices
from nova.api.servers import spec as server_spec

IMAGE = {'id': 'image', 'properties': {}}
FLAVOR = {'memory_mb': 512, 'root_gb': 1, 'ephemeral_gb': 2, 'swap': 64}


@pytest.mark.parametrize('name, expected', [
    ('web', 'web'), ('My Server_1', 'my-server-1'), ('db.example.org', 'db-example-org'),
    ('Žluťoučký', 'zlutoucky'),
    ('-x-', 'x'), ('日本', 'server-u'), ('..', 'server-u'), ('a' * 80, 'a' * 63), ("$(reboot)'\"", 'reboot')])
def test_hostname_is_derived_from_the_name(name, expected):
    assert server_spec.hostname(name, 'u') == expected


@pytest.mark.parametrize('name, expected', [
    ('web', 'web-12'), ('日本', 'server-u'), ('a' * 80, 'a' * 60 + '-12'), ('a' * 59 + '.b', 'a' * 59 + '--12')])
def test_hostnames_of_several_servers_differ(name, expected):
    assert server_spec.hostname(name, 'u', '-12') == expected


@pytest.mark.parametrize('given, expected', [
    ('web', 'web-12'), ('a' * 63, 'a' * 60 + '-12'), ('a' * 62 + '.example', 'a' * 62 + '.example-12')])
def test_a_requested_hostname_stays_a_label(given, expected):
    assert server_spec.numbered(given, '-12', server_spec.longest(given)) == expected


@pytest.mark.parametrize('server, expected', [
    ({}, (1, 1)), ({'min_count': 2}, (2, 2)), ({'max_count': 3}, (1, 3)),
    ({'min_count': 2, 'max_count': 5}, (2, 5))])
def test_server_counts_are_parsed(server, expected):
    assert server_spec.counts(server) == expected


@pytest.mark.parametrize('zone, expected', [
    (None, ('default', None, None)), ('a', ('a', None, None)), ('a:h', ('a', 'h', None)),
    ('a:h:n', ('a', 'h', 'n')), ('a::n', ('a', None, 'n'))])
def test_availability_zone_may_name_host_and_node(zone, expected):
    found = server_spec.placement({'availability_zone': zone}, 'default')
    assert (found['availability_zone'], found['force_host'], found['force_node']) == expected


def test_hints_are_lists_inside_and_as_given_outside():
    given = {'group': 'g', 'same_host': ['a', 'b', 'a'], 'n': 1, 'x': 'y'}
    hints = server_spec.hints({'os:scheduler_hints': given})
    assert hints == {'group': ['g'], 'same_host': ['a', 'b'], 'n': [1], 'x': ['y']}
    assert server_spec.shown_hints(hints) == {**given, 'group': ['g'], 'same_host': ['a', 'b']}


def test_flavor_defines_root_ephemeral_and_swap_disks():
    root, ephemeral, swap = server_devices.parse({}, IMAGE, FLAVOR)
    assert (root['source_type'], root['image_id'], root['boot_index']) == ('image', 'image', 0)
    assert (ephemeral['source_type'], ephemeral['volume_size']) == ('blank', 2)
    assert ephemeral['guest_format'] is None
    assert (swap['volume_size'], swap['guest_format']) == (64, 'swap')


def test_requested_disks_replace_those_of_the_flavor():
    devices = server_devices.parse({'block_device_mapping_v2': [
        {'source_type': 'image', 'uuid': 'image', 'destination_type': 'local', 'boot_index': 0,
         'disk_bus': 'scsi'},
        {'source_type': 'blank', 'volume_size': 1, 'guest_format': 'ext4'},
        {'source_type': 'blank', 'volume_size': 1}]}, {**IMAGE, 'properties': {'hw_disk_bus': 'scsi'}}, FLAVOR)
    assert [device['volume_size'] for device in devices] == [None, 1, 1, 64]
    assert devices[0]['disk_bus'] == 'scsi' and devices[1]['guest_format'] == 'ext4'


@pytest.mark.parametrize('device, words', [
    ({'guest_format': 'zfs'}, "guest_format 'zfs' is unknown; it may be swap, ext2"),
    ({'device_type': 'tape'}, "device_type 'tape' is unknown"), ({'disk_bus': 'xen'}, "disk_bus 'xen' is unknown"),
    ({'device_type': 'lun'}, 'device_type lun is not supported for a local device'),
    ({'device_type': 'cdrom'}, 'device_type cdrom is not supported for a local device'),
    ({'disk_bus': 'fdc'}, 'cannot use the bus fdc'),
    ({'destination_type': 'volume', 'disk_bus': 'fdc'}, 'a floppy needs the bus fdc'),
    ({'destination_type': 'volume', 'device_type': 'cdrom', 'disk_bus': 'virtio'}, 'a cdrom needs one of the buses'),
    ({'destination_type': 'volume', 'device_type': 'floppy', 'disk_bus': 'usb'}, 'a floppy needs the bus fdc'),
    ({'destination_type': 'volume', 'device_type': 'lun', 'disk_bus': 'virtio'}, 'needs the bus scsi'),
    ({'destination_type': 'volume', 'guest_format': 'ext4'}, 'guest_format is supported for blank')])
def test_ineffective_block_device_values_are_refused(device, words):
    """The words were stored, and no host looked at them."""
    with pytest.raises(exception.InvalidBlockDevice, match=words):
        server_devices.parse({'block_device_mapping_v2': [
            {'source_type': 'image', 'uuid': 'image', 'destination_type': 'local', 'boot_index': 0},
            {'source_type': 'blank', 'volume_size': 1, 'destination_type': 'local', **device}]}, IMAGE, FLAVOR)


@pytest.mark.parametrize('image, error', [
    ({'status': 'queued'}, exception.ImageInactive), ({'min_ram': 513}, exception.FlavorTooSmall),
    ({'disk_format': 'ploop'}, exception.ImageUnacceptable), ({'container_format': 'ova'}, exception.ImageUnacceptable),
    ({'min_disk': 2}, exception.FlavorTooSmall), ({'size': 2 ** 30 + 1}, exception.FlavorTooSmall)])
def test_image_larger_than_the_flavor_is_refused(image, error):
    good = {'id': 'x', 'status': 'active', 'min_ram': 512, 'min_disk': 1, 'size': 2 ** 30, 'properties': {}}
    server_spec.check_image(good, FLAVOR)
    server_spec.check_image({**good, 'disk_format': 'vhd', 'container_format': 'bare'}, FLAVOR)
    with pytest.raises(error):
        server_spec.check_image({**good, **image}, FLAVOR)


@pytest.mark.parametrize('path', ['../x', '/a/../../b', '/a\0b', '.', '/', 'a/../..', '/x\ny'])
def test_paths_of_files_stay_inside(path):
    with pytest.raises(exception.BadRequest):
        server_spec.injected_files([{'path': path, 'contents': ''}], {})


def test_passwords_and_reservations_differ():
    assert len({server_spec.password() for _ in range(50)}) == 50
    assert len({server_spec.reservation_id({}, False) for _ in range(50)}) == 50
    given = 'r-0123456789abcdef0'
    assert server_spec.reservation_id({'ec2:reservation': f'{given}/2'}, True) == given
    assert server_spec.reservation_id({'ec2:reservation': f'{given}/2'}, False) != given
    for other in (given, f'{given}0/2', f'{given}/', f'{given}/2\n', 'r-x/2', ''):
        assert server_spec.reservation_id({'ec2:reservation': other}, True) != given
