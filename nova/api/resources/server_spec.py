"""From the body of a server create to what the system keeps: pure conversions and their refusals."""
import base64
import posixpath
import re
import secrets
import unicodedata

from nova import exception

MAX_SERVERS = 1000              # of one request
HOSTNAME_LENGTH = 63
PASSWORD_LENGTH = 12
# no characters that look alike
_PASSWORD_LETTERS = '23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'


def counts(server):
    """(min_count, max_count)."""
    least = server.get('min_count', 1)
    most = server.get('max_count', least)
    if least > most:
        raise exception.BadRequest('min_count must be <= max_count')
    if most > MAX_SERVERS:
        raise exception.BadRequest(f'One request makes at most {MAX_SERVERS} servers.')
    return least, most


def password():
    """A new administrator password."""
    return ''.join(secrets.choice(_PASSWORD_LETTERS) for _ in range(PASSWORD_LENGTH))


def reservation_id():
    return 'r-' + ''.join(secrets.choice('0123456789abcdefghijklmnopqrstuvwxyz') for _ in range(8))


def hostname(name, uuid):
    """A host name made of a display name: letters, digits, hyphens; of the uuid when nothing is left."""
    plain = unicodedata.normalize('NFKD', name).encode('ascii', 'ignore').decode().lower()
    label = re.sub(r'[^a-z0-9-]+', '', re.sub(r'[\s._]+', '-', plain))
    return label[:HOSTNAME_LENGTH].strip('-') or 'server-' + uuid


def numbered(name, number, total):
    """The name of one of several servers of a request, ``number`` from 0."""
    return name if total == 1 else f'{name[:250]}-{number + 1}'


# ---- where -------------------------------------------------------------------

def placement(server, default_zone):
    """{'availability_zone', 'force_host', 'force_node', 'requested_host', 'requested_node'}.

    ``zone:host:node`` (host or node may be empty) forces a host, as administrators may.
    """
    zone, _, rest = (server.get('availability_zone') or '').partition(':')
    host, _, node = rest.partition(':')
    if ':' in node:
        raise exception.BadRequest(
            'Unable to parse availability_zone: it is zone, zone:host or zone:host:node.')
    wanted = {'requested_host': server.get('host'), 'requested_node': server.get('hypervisor_hostname')}
    if (host or node) and any(wanted.values()):
        raise exception.BadRequest('A requested destination and a forced host in availability_zone exclude '
                                   'each other.')
    return {'availability_zone': zone or default_zone, 'force_host': host or None, 'force_node': node or None,
            **wanted}


def hints(body):
    """Scheduler hints, each value a list."""
    given = body.get('os:scheduler_hints') or body.get('OS-SCH-HNT:scheduler_hints') or {}
    found = {}
    for name, value in given.items():
        values = list(value) if isinstance(value, list) else [value]
        found[name] = list(dict.fromkeys(values)) if all(isinstance(item, str) for item in values) else values
    return found


def shown_hints(wanted):
    """The hints as a server shows them: lists where the API has lists, else the value as it came."""
    lists = {'group', 'different_host'}
    return {name: values if name in lists or len(values) != 1 else values[0]
            for name, values in wanted.items()}


# ---- networks ----------------------------------------------------------------

def requested_networks(given, count):
    """What RequestSpec.requested_networks holds: None, 'none', or a list of dicts.

    :param given: ``networks`` of the body; None, a list, 'auto' or 'none'
    :param count: servers that are made at most
    """
    if not given or given == 'auto':
        return None
    if given == 'none':
        return 'none'
    found, ports = [], set()
    for network in given:
        port, network_id, address = network.get('port'), network.get('uuid'), network.get('fixed_ip')
        if port:
            if address:
                raise exception.BadRequest(
                    f"Specified Fixed IP '{address}' cannot be used with port '{port}': the two cannot be "
                    'specified together.')
            if count > 1:
                raise exception.BadRequest('A single port cannot be attached to several servers.')
            if port in ports:
                raise exception.BadRequest(f'Port {port} is requested twice.')
            ports.add(port)
            network_id = None
        elif not network_id:
            raise exception.BadRequest('Bad networks format: a network uuid or a port is missing.')
        elif not re.fullmatch(r'[0-9a-fA-F-]{32,36}', network_id):
            raise exception.BadRequest('Bad networks format: network uuid is not in proper format '
                                       f'({network_id[:80]})')
        if address and count > 1:
            raise exception.BadRequest('A fixed IP address cannot be given to several servers.')
        found.append({'network_id': network_id, 'port_id': port or None, 'fixed_ip': address,
                      'tag': network.get('tag')})
    tags = [network['tag'] for network in found if network['tag']]
    if len(tags) != len(set(tags)):
        raise exception.BadRequest('Two devices have the same tag.')
    return found


def security_groups(given):
    """Names, each once, in the order given; the default group when there are none."""
    return list(dict.fromkeys(group['name'] for group in given or () if group.get('name'))) or ['default']


# ---- files -------------------------------------------------------------------

def injected_files(given, limits):
    """[{'path', 'contents'}] of ``personality``.

    :param limits: of quotas.RESOURCES, the injected_file… ones; -1: no limit
    """
    found = []
    _within(limits, 'injected_files', len(given or ()))
    for file in given or ():
        path = file['path']
        _within(limits, 'injected_file_path_length', len(path.encode()))
        if '..' in path.split('/') or not path.isprintable() or posixpath.normpath(path) in ('.', '/'):
            raise exception.BadRequest(f'Personality path {path[:80]!r} is not usable.')
        contents = base64.b64decode(file['contents'])
        _within(limits, 'injected_file_content_bytes', len(contents))
        found.append({'path': path, 'contents': base64.b64encode(contents).decode()})
    return found


def _within(limits, name, used):
    limit = limits.get(name, -1)
    if 0 <= limit < used:
        raise exception.LimitExceeded(resource=name, limit=limit)


def check_metadata(metadata, limits):
    """:raises LimitExceeded: more items than a server may have"""
    _within(limits, 'metadata_items', len(metadata))


# ---- block devices -----------------------------------------------------------

_INVALID = 'Block Device Mapping is Invalid: '


def block_devices(server, image_id, flavor):
    """Rows of block_device_mappings of one server: its root disk first, then ephemeral disks and swap.

    Servers have the disks of their flavor here; what needs a volume service is refused.
    """
    old, new = server.get('block_device_mapping'), server.get('block_device_mapping_v2')
    if old and new:
        raise exception.BadRequest('Using different block_device_mapping syntaxes is not allowed in the same '
                                   'request.')
    given = [_old_device(device) for device in old] if old else [_device(device) for device in new or ()]
    given = [device for device in given if device is not None]
    roots = [device for device in given if device['boot_index'] == 0]
    if len(roots) > 1:
        raise exception.BadRequest(_INVALID + 'Boot sequence for the instance and image/block device mapping '
                                              'combination is not valid.')
    if roots and roots[0]['source_type'] == 'image' and image_id != roots[0]['image_id']:
        raise exception.BadRequest(_INVALID + 'the image of boot index 0 is not imageRef.')
    if not roots and not image_id:
        raise exception.BadRequest('Invalid imageRef provided.')
    for device in given:
        _refuse_volumes(device)
    root = roots[0] if roots else _row('image', image_id=image_id, boot_index=0, device_type='disk')
    if root['source_type'] != 'image':
        raise exception.BadRequest(_INVALID + 'a local root disk is made from an image.')
    return [root, *_local_disks([device for device in given if device is not root], flavor)]


def _row(source_type, **values):
    return {'source_type': source_type, 'destination_type': 'local', 'device_name': None, 'device_type': None,
            'disk_bus': None, 'guest_format': None, 'boot_index': None, 'image_id': None, 'volume_id': None,
            'snapshot_id': None, 'volume_size': None, 'volume_type': None, 'delete_on_termination': True,
            'tag': None, **values}


def _old_device(device):
    """The first form of a mapping: always a volume, or no device at all."""
    if device.get('no_device'):
        return None
    source = 'snapshot' if device.get('snapshot_id') else 'volume'
    return _row(source, destination_type='volume', volume_id=device.get('volume_id'),
                snapshot_id=device.get('snapshot_id'), volume_size=device.get('volume_size'))


def _device(device):
    if device.get('no_device'):
        return None
    source = device.get('source_type')
    if source is None:
        raise exception.BadRequest(_INVALID + 'source_type is missing.')
    uuid = device.get('uuid')
    if source != 'blank' and not (uuid or device.get(f'{source}_id')):
        raise exception.BadRequest(_INVALID + f'a device of type {source} needs a uuid.')
    if source == 'blank' and uuid:
        raise exception.BadRequest(_INVALID + 'a blank device has no uuid.')
    values = {name: device.get(name) for name in ('device_name', 'device_type', 'disk_bus', 'guest_format',
                                                  'volume_size', 'volume_type', 'tag')}
    values[f'{source}_id'] = uuid or device.get(f'{source}_id')
    values.pop('blank_id', None)
    boot_index = device.get('boot_index')
    destination = device.get('destination_type') or (
        'volume' if source in ('volume', 'snapshot') else 'local')
    return _row(source, destination_type=destination,
                boot_index=boot_index if boot_index is None or boot_index >= 0 else -1,
                delete_on_termination=device.get('delete_on_termination', destination == 'local'), **values)


def _refuse_volumes(device):
    if device['destination_type'] == 'volume' or device['source_type'] in ('volume', 'snapshot'):
        raise exception.BadRequest(_INVALID + 'this deployment has no volume service.')
    if device['source_type'] == 'image' and device['boot_index'] != 0:
        raise exception.BadRequest(_INVALID + 'Mapping image to local is not supported beside the root disk.')


def _local_disks(given, flavor):
    """Ephemeral disks and swap: those asked for, else those of the flavor."""
    swaps = [device for device in given if device['guest_format'] == 'swap']
    others = [device for device in given if device['guest_format'] != 'swap']
    if len(swaps) > 1 or sum(device['volume_size'] or 0 for device in swaps) > flavor['swap']:
        raise exception.BadRequest(_INVALID + 'Swap drive requested is larger than instance type allows.')
    for device in others:
        device['volume_size'] = device['volume_size'] or flavor['ephemeral_gb']
    if sum(device['volume_size'] for device in others) > flavor['ephemeral_gb'] or (
            others and not flavor['ephemeral_gb']):
        raise exception.BadRequest(_INVALID + 'Ephemeral disks requested are larger than the instance type '
                                              'allows.')
    if not others and flavor['ephemeral_gb']:
        others = [_row('blank', volume_size=flavor['ephemeral_gb'], boot_index=-1)]
    if not swaps and flavor['swap']:
        swaps = [_row('blank', volume_size=flavor['swap'], guest_format='swap', boot_index=-1)]
    for device in swaps:
        device['volume_size'] = device['volume_size'] or flavor['swap']
    return others + swaps


# ---- image and flavor --------------------------------------------------------

_GIB = 1024 ** 3


def check_image(image, flavor):
    """:raises ImageInactive, FlavorTooSmall: the image cannot be booted with this flavor"""
    if image['status'] != 'active':
        raise exception.ImageInactive(image_id=image['id'])
    checks = [('memory', flavor['memory_mb'], int(image.get('min_ram') or 0))]
    if flavor['root_gb']:
        checks += [('disk', flavor['root_gb'], int(image.get('min_disk') or 0)),
                   ('disk', flavor['root_gb'] * _GIB, int(image.get('size') or 0))]
    for resource, have, need in checks:
        if have < need:
            raise exception.FlavorTooSmall(resource=resource, have=have, need=need)
