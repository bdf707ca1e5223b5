"""The plan of a server create: the data to store, computed from the request body and previously read facts.

The functions are pure. create_facts.py refuses missing references; this module refuses objects that do not fit.
"""
import collections.abc
import dataclasses
import datetime
import typing

from nova import exception
from nova.objects.image import Image
from nova.objects.image import StoredImage
from nova import states
from nova.api import request as api_request
from nova.api.servers import device_sources
from nova.api.servers import devices as server_devices
from nova.api.servers import spec as server_spec
from nova.api.servers.schemas import CreateBody
from nova.api.servers.schemas import ServerValues
from nova.db.projects import quotas
from nova.db.servers import block_devices
from nova.hardware import disks
from nova.hardware import guest_options
from nova.hardware import pci_spec
from nova.objects import numa
from nova.objects import pci
from nova.objects.flavor import Flavor

Document = dict[str, typing.Any]
Hints = dict[str, list[typing.Any]]         # {name of a scheduler hint: list of values}


@dataclasses.dataclass(frozen=True)
class Request:
    """Values parsed from the body of POST /servers.

    server        content of ``server`` in the body, with the defaults of the category
    least, most   minimum and maximum number of servers
    hints         scheduler hints, each a list
    networks      value of RequestSpec.requested_networks
    groups        names of the security groups
    """

    server: ServerValues
    least: int
    most: int
    place: server_spec.Placement
    hints: Hints
    networks: list[Document] | str | None
    groups: list[str]

    @classmethod
    def of(cls, body: CreateBody, default_zone: str | None) -> typing.Self:
        """Parse the body.

        :raises BadRequest: the request is inconsistent
        """
        server = body['server'].copy()
        least, most = server_spec.counts(server)
        return cls(server, least, most, server_spec.placement(server, default_zone), server_spec.hints(body),
                   server_spec.requested_networks(server.get('networks'), most),
                   server_spec.security_groups(server.get('security_groups')))


@dataclasses.dataclass(frozen=True)
class Facts:
    """Data from which the plan of a server create is computed.

    project_id, user_id   project and user of the caller
    category      name of the instance category
    hints         hints of the request, with the ID of the server group
    flavor        stored fields of the flavor
    zero_disk     whether an image may be used with a flavor without root disk
    key           the key pair's row or None
    limits        quota limits of the project
    image         image of imageRef, or None
    devices       rows of block_device_mappings of one server, the root disk first
    sources       source of each device: a volume, a snapshot, an image or None
    references    kernel and ramdisk images that the properties of the image or root volume name
    networks      networks of the request; those reserved for administrators are marked. 'auto': a network
                  must be created
    groups        names of the security groups that a server shows
    aliases       PCI aliases: {name: pci_spec.Alias}
    of_ports      PCI devices that the ports need
    named         whether a missing description defaults to the name (until 2.18)
    written       whether hosts inject files into disks, so that no config drive is needed
    """

    project_id: str
    user_id: str
    category: str
    hints: Hints
    flavor: Flavor
    zero_disk: bool
    key: api_request.Row | None
    limits: quotas.Limits
    image: StoredImage | None
    devices: list[Document]
    sources: list[device_sources.Source]
    references: list[Image]
    networks: list[Document] | str | None
    groups: list[str]
    aliases: dict[str, pci_spec.Alias]
    of_ports: list[pci.Request]
    named: bool
    written: bool = False


@dataclasses.dataclass(frozen=True)
class Plan:
    """Data stored for a request.

    least, most   minimum and maximum number of servers
    limits        quota limits
    columns       columns that all rows share, without timestamps and reservation ID
    spec          fields of objects.RequestSpec that the servers share
    needs_network   whether a network of the project must be created first
    """

    least: int
    most: int
    limits: quotas.Limits
    columns: Document
    spec: Document
    server: ServerValues
    needs_network: bool

    def rows(self, uuids: collections.abc.Sequence[str], reservation_id: str, now: datetime.datetime) -> list[Document]:
        """Return the rows of the servers, in the order of ``uuids``."""
        name, given, total = self.server['name'].strip(), self.server.get('hostname'), len(uuids)
        common = {**self.columns, 'created_at': now, 'updated_at': now, 'reservation_id': reservation_id}
        rows = []
        for number, uuid in enumerate(uuids):
            suffix = f'-{number + 1}' if total > 1 else ''
            hostname = (server_spec.numbered(given, suffix, server_spec.longest(given)) if given
                        else server_spec.hostname(name, uuid, suffix))
            rows.append({**common, 'uuid': uuid, 'display_name': server_spec.numbered(name, suffix),
                         'launch_index': number, 'hostname': hostname})
        return rows


def plan(request: Request, facts: Facts) -> Plan:
    """Build the plan.

    :raises NovaException: the request is refused
    """
    server, image, backed = request.server, facts.image, server_devices.is_volume_backed(facts.devices)
    properties, devices = device_sources.fitted(facts.devices, facts.sources, image)
    check_flavor(image, facts.flavor, backed, facts.zero_disk)
    for reference in facts.references:
        disks.check_data(reference)
    stored: Document = {
        **(image or {}), 'id': None if backed or image is None else image['id'], 'properties': properties,
        **server_spec.trusted(server.get('trusted_image_certificates'), backed)}
    flavor = server_spec.with_devices(facts.flavor, properties, facts.aliases, facts.of_ports)
    guest_options.check(flavor['extra_specs'], properties)
    topology = server_spec.guest_topology(flavor, properties)
    limits = facts.limits.of(facts.user_id)
    server_spec.check_metadata(server.get('metadata', {}), limits)
    needs_network = facts.networks == 'auto'
    spec = {'project_id': facts.project_id, 'user_id': facts.user_id, 'flavor': flavor, 'image': stored,
            'requested_networks': None if needs_network else facts.networks, 'security_groups': request.groups,
            'injected_files': server_spec.injected_files(server.get('personality'), limits),
            'block_devices': devices, 'hints': facts.hints, 'retry_hosts': [], 'category': facts.category,
            **request.place}
    columns = _columns(request, facts, spec)
    columns = {**columns, 'numa_topology': numa.text_of_guest(topology)}
    return Plan(request.least, request.most, facts.limits, columns, spec, server, needs_network)


def check_flavor(image: StoredImage | None, flavor: Flavor, volume_backed: bool, zero_disk: bool) -> None:
    """Check that the image fits the flavor, and that the root disk is limited.

    :param zero_disk: whether the root disk may be unlimited
    :raises BadRequest, Forbidden: the image does not fit, or its root disk would be unlimited
    """
    if image:
        server_spec.check_image(image, flavor, volume_backed)
    if not volume_backed and not flavor['root_gb'] and not zero_disk:
        raise exception.Forbidden('Only volume-backed servers are allowed for flavors with zero disk.')


def _columns(request: Request, facts: Facts, spec: Document) -> Document:
    """Return the columns that all servers of the request share."""
    server, key = request.server, facts.key
    flavor, image, devices = spec['flavor'], spec['image'], spec['block_devices']
    zone = (server.get('availability_zone') or '').partition(':')[0] or None
    properties = image['properties'] or {}
    return {
        'project_id': facts.project_id, 'user_id': facts.user_id,
        'vm_state': states.BUILDING, 'task_state': states.SCHEDULING, 'power_state': states.NOSTATE,
        'progress': 0, 'locked': False, 'availability_zone': spec['availability_zone'],
        'pinned_availability_zone': zone,
        'description': server.get('description', server['name'].strip() if facts.named else None),
        'image_id': image['id'], 'kernel_id': properties.get('kernel_id'), 'ramdisk_id': properties.get('ramdisk_id'),
        'key_name': key and key['name'], 'key_data': key and key['public_key'],
        'user_data': server.get('user_data'),
        'config_drive': server_spec.has_config_drive(
            server.get('config_drive', properties.get('img_config_drive') == 'mandatory' or None),
            spec['injected_files'], facts.written),
        'access_ip_v4': server.get('accessIPv4'), 'access_ip_v6': server.get('accessIPv6'),
        'disk_config': server_spec.disk_config(server.get('OS-DCF:diskConfig', 'MANUAL'), properties),
        'trusted_certs': server.get('trusted_image_certificates'),
        'scheduler_hints': server_spec.shown_hints(facts.hints) or None, 'metadata': server.get('metadata', {}),
        'tags': server_spec.joined_tags(server.get('tags', ())), 'flavor_id': flavor['flavor_id'], 'flavor': flavor,
        **{name: flavor[name] for name in ('vcpus', 'memory_mb', 'root_gb', 'ephemeral_gb')},
        'image_properties': properties, 'network_info': [], 'security_groups': facts.groups,
        'system_metadata': {}, 'category': facts.category, 'server_group_id': server_spec.group(facts.hints),
        'root_device_name': devices[0]['device_name'], 'volumes': block_devices.shown(devices)}
