"""Pure conversions and checks of the body of a server create."""
import base64
import collections.abc
import posixpath
import re
import secrets
import typing
import unicodedata

from oslo_config import cfg

from nova import exception
from nova.json_types import JsonObject
from nova import utils
from nova.api.servers.schemas import CreateBody
from nova.api.servers.schemas import ServerValues
from nova.hardware import cpu_topology
from nova.hardware import disks
from nova.hardware import growth
from nova.hardware import guest_request
from nova.hardware import pci_spec
from nova.image import fields as image_fields
from nova.objects import numa
from nova.objects import pci
from nova.objects.flavor import Flavor
from nova.objects.image import StoredImage
from nova.web import sizes

Document = dict[str, typing.Any]

NOT_WRITTEN = -2                # value of [libvirt] inject_partition with which hosts do not inject files into disks
MAX_SERVERS = 1000              # maximum servers of one request
HOSTNAME_LENGTH, NAME_LENGTH = 63, 255
PASSWORD_LENGTH = 12
# excludes characters that are easily confused
_PASSWORD_LETTERS = '23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'


def counts(server: ServerValues) -> tuple[int, int]:
    """Return (min_count, max_count)."""
    least: int = server.get('min_count', 1)
    most: int = server.get('max_count', least)
    if least > most:
        raise exception.BadRequest('min_count must be <= max_count')
    if most > MAX_SERVERS:
        raise exception.BadRequest(f'One request may create at most {MAX_SERVERS} servers.')
    return least, most


def password() -> str:
    """Generate an administrator password."""
    return ''.join(secrets.choice(_PASSWORD_LETTERS) for _ in range(PASSWORD_LENGTH))


def shown_password(conf: cfg.ConfigOpts, password: str | None) -> dict[str, str | None]:
    """Return the password field of a response.

    :param conf: uses [api] enable_instance_password
    """
    return {'adminPass': password} if conf.api.enable_instance_password else {}


def reservation_id(metadata: collections.abc.Mapping[str, str], of_ec2: bool) -> str:
    """Return a new reservation ID, or the ID in the metadata, which RunInstances of the EC2 API has returned.

    :param of_ec2: see Request.of_ec2; metadata of other clients are not trusted
    """
    found = utils.ec2_reservation(metadata)
    if found and of_ec2:
        return found[0]
    return 'r-' + ''.join(secrets.choice('0123456789abcdefghijklmnopqrstuvwxyz') for _ in range(8))


def hostname(name: str, uuid: str, suffix: str = '') -> str:
    """Derive a host name from the letters, digits and hyphens of a display name, or from the UUID if there are none.

    :param suffix: number of the server in its request; a long name is cut before it
    """
    plain = unicodedata.normalize('NFKD', name).encode('ascii', 'ignore').decode().lower()
    label = re.sub(r'[^a-z0-9-]+', '', re.sub(r'[\s._]+', '-', plain)).strip('-')
    return numbered(label, suffix, HOSTNAME_LENGTH).rstrip('-') if label else 'server-' + uuid


def numbered(name: str, suffix: str, length: int = NAME_LENGTH) -> str:
    """Return a name with a suffix, in at most ``length`` characters."""
    return name[:length - len(suffix)] + suffix


def longest(hostname: str) -> int:
    """Return the maximum length of a host name: 63 for one label, more for a name with a domain."""
    return NAME_LENGTH if '.' in hostname else HOSTNAME_LENGTH


# ---- placement ---------------------------------------------------------------

Placement = typing.TypedDict('Placement', {
    'availability_zone': str | None, 'force_host': str | None, 'force_node': str | None, 'requested_host': str | None,
    'requested_node': str | None})


def placement(server: ServerValues, default_zone: str | None) -> Placement:
    """Return the requested placement. ``zone:host:node`` (host or node may be empty) forces a host.

    Only administrators may force a host.
    """
    zone, _, rest = (server.get('availability_zone') or '').partition(':')
    host, _, node = rest.partition(':')
    if ':' in node:
        raise exception.BadRequest(
            'Unable to parse availability_zone: it must be zone, zone:host or zone:host:node.')
    requested_host, requested_node = server.get('host'), server.get('hypervisor_hostname')
    if (host or node) and (requested_host or requested_node):
        raise exception.BadRequest('A requested destination and a forced host in availability_zone exclude '
                                   'each other.')
    return {'availability_zone': zone or default_zone, 'force_host': host or None, 'force_node': node or None,
            'requested_host': requested_host, 'requested_node': requested_node}


def hints(body: CreateBody) -> dict[str, list[typing.Any]]:
    """Return {name of a scheduler hint: list of values}."""
    given = body.get('os:scheduler_hints') or body.get('OS-SCH-HNT:scheduler_hints') or {}
    found = {}
    for name, value in given.items():
        values = list(value) if isinstance(value, list) else [value]
        found[name] = list(dict.fromkeys(values)) if all(isinstance(item, str) for item in values) else values
    return found


def group(hints: dict[str, list[typing.Any]]) -> str | None:
    """Return the ID of the server group in the hints, or None."""
    named = hints.get('group') or [None]
    if len(named) > 1:
        raise exception.BadRequest('A server can be in one server group only.')
    return named[0]


def shown_hints(hints: dict[str, list[typing.Any]]) -> JsonObject:
    """Return the hints as the API shows them: most with one value as a plain value, some always as lists."""
    lists = {'group', 'different_host'}
    return {name: values if name in lists or len(values) != 1 else values[0]
            for name, values in hints.items()}


def joined_tags(tags: collections.abc.Iterable[str]) -> str:
    """Return the value of the column ``tags``."""
    return ''.join(f',{tag}' for tag in dict.fromkeys(tags)) + ',' if tags else ''


# ---- networks ----------------------------------------------------------------

def requested_networks(given: list[dict[str, str | None]] | str | None, count: int) -> list[Document] | str | None:
    """Return the value of RequestSpec.requested_networks: None, 'none', or a list of dicts.

    :param given: ``networks`` of the body; None, a list, 'auto' or 'none'
    :param count: maximum number of servers
    """
    if not given or given == 'auto':
        return None
    if isinstance(given, str):
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


def security_groups(given: list[dict[str, str]] | None) -> list[str]:
    """Return unique group names in their order; default: the group 'default'."""
    return list(dict.fromkeys(group['name'] for group in given or () if group.get('name'))) or ['default']


# ---- files -------------------------------------------------------------------

def injected_files(given: list[Document] | None, limits: dict[str, int]) -> list[Document]:
    """Return [{'path', 'contents'}] of ``personality``.

    :param limits: the injected_file… limits of quotas.RESOURCES; -1: unlimited
    """
    found = []
    _within(limits, 'injected_files', len(given or ()))
    for file in given or ():
        path = file['path']
        _within(limits, 'injected_file_path_length', len(path.encode()))
        if '..' in path.split('/') or not path.isprintable() or posixpath.normpath(path) in ('.', '/'):
            raise exception.BadRequest(f'Personality path {path[:80]!r} is invalid.')
        contents = base64.b64decode(file['contents'])
        _within(limits, 'injected_file_content_bytes', len(contents))
        found.append({'path': path, 'contents': base64.b64encode(contents).decode()})
    return found


def has_config_drive(requested: bool | None, files: list[Document], written: bool) -> bool:
    """Return True if a server has a config drive, from which cloud-init writes injected files.

    :param requested: choice of the request or the image; None: unspecified
    :param files: files of ``personality``
    :param written: hosts inject files into disks, without a config drive
    :raises BadRequest: there are files, and the request disables the config drive
    """
    if requested or not files or written:
        return bool(requested)
    if requested is None:
        return True
    raise exception.BadRequest('personality requires a config drive, but the request has '
                               '"config_drive": false. Leave config_drive out, or set it to true.')


def disk_config(wanted: str, properties: dict[str, str] | None) -> str:
    """Return the requested disk configuration.

    :raises BadRequest: the image forbids it
    """
    allowed = str((properties or {}).get('auto_disk_config', 'true')).lower()
    if wanted == 'AUTO' and allowed in ('false', '0', 'no', 'off', 'disabled'):
        raise exception.BadRequest('Requested image has automatic disk resize disabled.')
    return wanted


def _within(limits: dict[str, int], name: str, used: int) -> None:
    limit = limits.get(name, -1)
    if 0 <= limit < used:
        raise exception.LimitExceeded(resource=name, limit=limit)


def check_metadata(metadata: dict[str, str], limits: dict[str, int]) -> None:
    """Check number and size of metadata items.

    :raises LimitExceeded, TooLarge: a limit is exceeded
    """
    _within(limits, 'metadata_items', len(metadata))
    sizes.check(metadata, sizes.METADATA, 'Metadata')


# ---- image and flavor --------------------------------------------------------

_GIB = 1024 ** 3


def check_image(image: StoredImage, flavor: Flavor, volume_backed: bool = False) -> None:
    """Check that an image can boot with a flavor.

    :raises ImageInactive, ImageUnacceptable, FlavorTooSmall: the image cannot boot with the flavor
    """
    disks.check_data(image)
    for name, found, known in (('disk_format', image.get('disk_format'), image_fields.DISK_FORMATS),
                               ('container_format', image.get('container_format'), image_fields.CONTAINER_FORMATS)):
        if found and found not in known:
            raise exception.ImageUnacceptable(image_id=image['id'], reason=(
                f'no host can boot the {name} {found!r:.40}. Convert the image to one of: {", ".join(known)}'))
    checks = [('memory', flavor['memory_mb'], int(image.get('min_ram') or 0))]
    if flavor['root_gb'] and not volume_backed:
        checks += [('disk', flavor['root_gb'], int(image.get('min_disk') or 0)),
                   ('disk', flavor['root_gb'] * _GIB, int(image.get('size') or 0))]
    for resource, have, need in checks:
        if have < need:
            raise exception.FlavorTooSmall(resource=resource, have=have, need=need)


def guest_topology(flavor: Flavor, properties: dict[str, str]) -> numa.GuestTopology | None:
    """Return the objects.numa.GuestTopology requested by flavor and image properties, or None.

    :raises InvalidInput: the request is invalid or inconsistent, or no guest can have the vCPUs; see also growth.check
    """
    cpu_topology.check_number(flavor, properties)
    topology = None
    if guest_request.concerns(flavor, properties):
        cpu_topology.choose(flavor['vcpus'], flavor.get('extra_specs'), properties)
        topology = guest_request.topology(flavor, properties)
    growth.check(flavor, properties, topology)
    return topology


def check_same_topology(flavor: Flavor, old: dict[str, str], new: dict[str, str]) -> None:
    """Check that a new image does not change the NUMA topology of a server.

    :param old, new: properties of the images
    :raises InvalidInput: the new image requests another topology
    """
    before = None if not guest_request.concerns(flavor, old) else guest_request.topology(flavor, old)
    if guest_topology(flavor, new) != before:
        raise exception.InvalidInput(reason="a rebuild cannot change the NUMA topology, CPUs and pages of a server; "
                                            'this image requests others.')


def trusted(certificates: list[str] | None, volume_backed: bool) -> dict[str, list[str]]:
    """Return {'trusted_certs': certificate IDs}; one of these must have issued the image's signer certificate.

    :raises BadRequest: hosts do not download an image for this server
    """
    if not certificates:
        return {}
    if volume_backed:
        raise exception.BadRequest('trusted_image_certificates: images of servers that boot from a volume are not '
                                   'verified.')
    return {'trusted_certs': certificates}


def with_devices(flavor: Flavor, properties: dict[str, str] | None, aliases: dict[str, pci_spec.Alias],
                 of_ports: collections.abc.Iterable[pci.Request] = ()) -> Flavor:
    """Return the stored flavor with the PCI devices that its aliases currently resolve to.

    :param properties: properties of the image
    :param aliases: {name: hardware.pci_spec.Alias}
    :param of_ports: devices that the ports need
    :raises InvalidInput: unknown alias, or flavor and image conflict
    """
    requests = [*pci_spec.requests(aliases, flavor, properties or {}), *of_ports]
    return {**flavor, 'pci_requests': pci.dump(requests)} if requests else flavor
