"""Guest metadata: the documents of the metadata service and of the config drive.

Pure functions that convert an instance to two public formats: EC2's instance metadata, and the ``openstack`` documents
that cloud-init reads.
"""
import base64
from collections.abc import Callable, Collection, Iterable, Mapping
import ipaddress
import json
import re
import secrets
from typing import Any, TypeAlias

from nova.objects.network_info import Subnet
from nova.objects.network_info import Vif
from nova import utils
from nova.json_types import Encodable
from nova.json_types import JsonDocument
from nova.objects import device_addresses
from nova.objects import numa
from nova.objects.instance import Instance

EC2_VERSIONS = ('1.0', '2007-01-19', '2007-03-01', '2007-08-29', '2007-10-10', '2007-12-15', '2008-02-01',
                '2008-09-01', '2009-04-04')
OPENSTACK_VERSIONS = ('2012-08-10', '2013-04-04', '2013-10-17', '2015-10-15', '2016-06-30', '2016-10-06',
                      '2017-02-22', '2018-08-27', '2020-10-14')
IDENTITY_VERSION = '2017-09-30'          # version of EC2's identity document
ARCHITECTURES = {'aarch64': 'arm64', 'i686': 'i386'}             # {architecture of an image: its EC2 name}
DISKS = 'block-device-mapping'           # directory of the disks in EC2's metadata
RANDOM_SEED_BYTES = 512
_META_DATA = re.compile(r'openstack/[^/]+/meta_data\.json\Z')
SECOND_METRIC = 1025      # metric of the second interface's default route; above 1024, the kernel's default for IPv6
# an entry of an EC2 tree: a leaf, or a directory
Entry: TypeAlias = 'str | bytes | Mapping[str, Entry]'
Tree: TypeAlias = Mapping[str, Entry]
GROW = "#cloud-config\ngrowpart: {mode: auto, devices: ['/']}\nresize_rootfs: true\n"


def fqdn(instance: Instance, domain: str) -> str:
    return f'{instance.hostname}.{domain}' if domain else instance.hostname


def addresses(network_info: list[Vif], version: int) -> list[str]:
    """Return every fixed address of this IP version in the order of the interfaces."""
    return [ip['address'] for vif in network_info for subnet in vif['network']['subnets']
            if subnet['version'] == version for ip in subnet['ips']]


def _floating(vif: Vif) -> dict[str, list[str]]:
    """Return {fixed IPv4 address: [floating addresses]} of a VIF."""
    found: dict[str, list[str]] = {}
    for subnet in vif['network']['subnets']:
        for ip in subnet['ips'] if subnet['version'] == 4 else ():
            for floating in ip.get('floating_ips') or ():
                found.setdefault(ip['address'], []).append(
                    floating['address'] if isinstance(floating, dict) else floating)
    return found


def _interface(instance: Instance, vif: Vif, index: int, domain: str) -> dict[str, Entry]:
    """Return the EC2 directory of an interface, which the parent directory lists by MAC address."""
    subnets = [subnet for subnet in vif['network']['subnets'] if subnet['version'] == 4]
    floating = _floating(vif)
    found: dict[str, Entry] = {
        'device-number': str(index), 'interface-id': utils.ec2_id(vif['id'], 'eni') or '',
        'local-hostname': fqdn(instance, domain), 'local-ipv4s': '\n'.join(addresses([vif], 4)),
        'mac': vif['address'], 'owner-id': instance.project_id,
        'security-groups': '\n'.join(instance.security_groups)}
    if subnets:
        found |= {'subnet-id': utils.ec2_id(subnets[0]['id'], 'subnet') or '',
                  'subnet-ipv4-cidr-block': subnets[0]['cidr'] or ''}
    if ipv6 := addresses([vif], 6):
        found['ipv6s'] = '\n'.join(ipv6)
    if floating:
        found |= {'public-ipv4s': '\n'.join(address for each in floating.values() for address in each),
                  'ipv4-associations': {public: fixed for fixed, each in floating.items() for public in each}}
    return found


def identity_document(instance: Instance, region: str) -> bytes:
    """Return EC2's ``dynamic/instance-identity/document``. The document has no signature and no product codes."""
    launched = instance.launched_at or instance.created_at
    found = {'accountId': instance.project_id, 'architecture': _architecture(instance),
             'availabilityZone': instance.availability_zone, 'billingProducts': None, 'devpayProductCodes': None,
             'marketplaceProductCodes': None, 'imageId': utils.ec2_id(instance.image_id, 'ami'),
             'instanceId': utils.ec2_id(instance.uuid), 'instanceType': instance.flavor['name'],
             'kernelId': utils.ec2_id(instance.kernel_id, 'aki'), 'ramdiskId': utils.ec2_id(instance.ramdisk_id, 'ari'),
             'pendingTime': launched.strftime('%Y-%m-%dT%H:%M:%SZ'),
             'privateIp': next(iter(addresses(instance.network_info, 4)), None), 'region': region,
             'version': IDENTITY_VERSION}
    return utils.dump_json(found).encode()


def _architecture(instance: Instance) -> str | None:
    """Return EC2's name of the architecture, or None if the image does not define one."""
    named = str((instance.image_properties or {}).get('hw_architecture')
                or (instance.image_properties or {}).get('architecture') or '')
    return ARCHITECTURES.get(named, named or None)


def block_device_mapping(instance: Instance, devices: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return EC2's ``block-device-mapping``: {name of a disk: device}.

    ``root`` is the path of the root device, and ``ami`` its name without directory. ``ephemeral0``, ``ephemeral1``, …
    are the ephemeral disks in order of creation, and ``swap`` is the swap disk. ``ebs0``, ``ebs1``, … are the volumes
    except the root volume, in order of their device names.

    :param devices: rows of the server's disks, see ``nova.api.servers.devices.row``
    """
    root = instance.root_device_name or '/dev/vda'
    rows = [row for row in devices if row.get('boot_index') != 0]
    blank = [row for row in rows if (row.get('source_type'), row.get('destination_type')) == ('blank', 'local')]
    # A resize changes the local disks but not their rows, so the flavor decides which disks exist.
    ephemerals = [row for row in blank if row['guest_format'] != 'swap'] or [{}] if instance.ephemeral_gb else []
    local = {f'ephemeral{number}': row for number, row in enumerate(ephemerals)}
    if (instance.flavor or {}).get('swap'):
        local['swap'] = next((row for row in blank if row['guest_format'] == 'swap'), {})
    volumes = sorted((row['device_name'] for row in rows
                      if row.get('destination_type') == 'volume' and row['device_name']),
                     key=lambda name: (len(name), name))
    return {'ami': root.removeprefix('/dev/'), 'root': root,
            **{name: row.get('device_name') or root[:-1] + chr(ord(root[-1]) + number)
               for number, (name, row) in enumerate(local.items(), 1)},
            **{f'ebs{number}': name for number, name in enumerate(volumes)}}


def ec2_tree(instance: Instance, domain: str = '', region: str = '', devices: Iterable[Mapping[str, Any]] = (),
             ) -> dict[str, Entry]:
    """Return the tree under /latest.

    :param region: region of the EC2 API; '' omits the entries that name it
    :param devices: the server's rows of block_device_mappings
    """
    fixed = (addresses(instance.network_info, 4) or [''])[0]
    placement = {'availability-zone': instance.availability_zone or ''}
    meta_data: dict[str, Entry] = {
        'ami-id': utils.ec2_id(instance.image_id, 'ami') or '',
        'ami-launch-index': str(instance.launch_index),
        'ami-manifest-path': '',             # images of this service have no manifest
        DISKS: block_device_mapping(instance, devices),
        'hostname': fqdn(instance, domain),
        'instance-action': 'none',
        'instance-id': utils.ec2_id(instance.uuid) or '',
        'instance-type': instance.flavor['name'],
        'local-hostname': fqdn(instance, domain),
        'local-ipv4': fixed,
        'placement': placement,
        'public-hostname': fqdn(instance, domain),
        'public-ipv4': next((each[0] for vif in instance.network_info for each in _floating(vif).values()), ''),
        'reservation-id': instance.reservation_id,
        'security-groups': '\n'.join(instance.security_groups),
    }
    if instance.network_info:
        meta_data |= {'mac': instance.network_info[0]['address'], 'network': {'interfaces': {'macs': {
            vif['address']: _interface(instance, vif, index, domain)
            for index, vif in enumerate(instance.network_info)}}}}
    for key, prefix in (('kernel', 'aki'), ('ramdisk', 'ari')):
        ident = getattr(instance, key + '_id')
        if ident:
            meta_data[key + '-id'] = utils.ec2_id(ident, prefix) or ''
    if instance.key_data and utils.key_type(instance.key_data) == 'ssh':      # EC2's format does not support X.509
        meta_data['public-keys'] = {'0': _NamedDirectory(instance.key_name or '', {
            'openssh-key': instance.key_data.strip() + '\n'})}
    tree: dict[str, Entry] = {'meta-data': meta_data}
    if region:
        placement['region'] = region
        tree['dynamic'] = {'instance-identity': {'document': identity_document(instance, region)}}
    if instance.user_data:
        tree['user-data'] = base64.b64decode(instance.user_data)
    return tree


class _NamedDirectory(dict[str, str]):
    """Directory that its parent lists as ``index=name``, the EC2 format of public keys."""

    def __init__(self, name: str, content: dict[str, str]) -> None:
        super().__init__(content)
        self.name = name


def listing(directory: Tree) -> str:
    """Return a directory of the EC2 tree as text: a line for each name, with a slash after directories."""
    def line(name: str, value: Entry) -> str:
        if isinstance(value, _NamedDirectory):
            return f'{name}={value.name}'
        return name + '/' if isinstance(value, dict) else name
    return '\n'.join(line(name, value) for name, value in sorted(directory.items()))


def meta_data(instance: Instance, injected_files: Collection[Any] = (), admin_password: str | None = None,
              domain: str = '', devices: Iterable[Mapping[str, Any]] = ()) -> JsonDocument:
    """Return the content of ``openstack/*/meta_data.json``.

    :param injected_files: [(path, bytes)]; the bytes are offered under ``openstack/content/``
    :param devices: the server's rows of block_device_mappings
    """
    document: dict[str, Encodable] = {
        'uuid': instance.uuid,
        'name': instance.display_name,
        'hostname': fqdn(instance, domain),
        'availability_zone': instance.availability_zone,
        'launch_index': instance.launch_index,
        'project_id': instance.project_id,
        'random_seed': base64.b64encode(secrets.token_bytes(RANDOM_SEED_BYTES)).decode(),
        'devices': _placed([*map(_nic, filter(_is_tagged, instance.network_info)),
                            *map(_disk, filter(_is_tagged, devices))], device_addresses.read(
            instance.system_metadata if instance.obj_attr_is_set('system_metadata') else None)),
        'dedicated_cpus': sorted(numa.dedicated(instance.numa_topology)),
    }
    if instance.metadata:
        document['meta'] = instance.metadata
    if instance.key_data:
        document['public_keys'] = {instance.key_name or '': instance.key_data}
        document['keys'] = [{'name': instance.key_name, 'type': utils.key_type(instance.key_data),
                             'data': instance.key_data}]
    if admin_password:
        document['admin_pass'] = admin_password
    if injected_files:
        document['files'] = [{'path': path, 'content_path': content_path(index)}
                             for index, (path, _content) in enumerate(injected_files)]
    return document


def _is_tagged(device: Mapping[str, Any]) -> bool:
    return bool(device.get('tag'))


def _disk(device: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tagged disk. Guests find a volume by its serial number, which is the complete volume id."""
    found = {'type': 'disk', 'bus': device.get('disk_bus') or 'none', 'address': 'none', 'tags': [device['tag']]}
    for name, column in (('path', 'device_name'), ('serial', 'volume_id')):
        if device.get(column):
            found[name] = device[column]
    return found


def _nic(vif: Vif) -> dict[str, Any]:
    return {'type': 'nic', 'bus': 'none', 'address': 'none', 'mac': vif['address'], 'tags': [vif['tag']]}


def _placed(devices: list[dict[str, Any]], known: device_addresses.Addresses) -> list[dict[str, Any]]:
    """Return devices of meta_data.json with their bus and address in the guest."""
    return [{**device, **dict(zip(('bus', 'address'), device_addresses.of_device(device, known), strict=True))}
            for device in devices]


def place_devices(drive: Mapping[str, bytes], look: Callable[[], device_addresses.Addresses]) -> dict[str, bytes]:
    """Add the addresses of devices to the meta_data.json files of a config drive; return the changed {path: bytes}.

    :param look: returns the addresses of the guest's devices; called only if a file lists devices
    """
    documents = {path: json.loads(data) for path, data in drive.items() if _META_DATA.match(path)}
    concerned = {path: document for path, document in documents.items() if document.get('devices')}
    known = look() if concerned else {}
    return {path: utils.dump_json({**document, 'devices': _placed(document['devices'], known)}).encode()
            for path, document in concerned.items()}


def content_path(index: int) -> str:
    return f'/content/{index:04d}'


def network_data(network_info: list[Vif], domain: str = '') -> dict[str, list[dict[str, Any]]]:
    """Return the content of ``openstack/*/network_data.json``.

    :param domain: default search domain of networks
    """
    links: list[dict[str, Any]] = []
    networks: list[dict[str, Any]] = []
    services: list[dict[str, Any]] = []
    for index, (vif, parent) in enumerate(_carried(network_info)):
        link, search = vif.get('devname') or vif['id'], vif['network'].get('dns_domain') or domain
        links.append({'id': link, 'vif_id': vif['id'], 'type': vif['type'], 'mtu': _mtu(vif),
                      'ethernet_mac_address': vif['address']} if parent is None else {
                          'id': link, 'vif_id': vif['id'], 'type': 'vlan', 'mtu': _mtu(vif), 'vlan_link': parent,
                          'vlan_id': vif['vlan'], 'vlan_mac_address': vif['address'],
                          'ethernet_mac_address': vif['address']})
        for subnet in vif['network']['subnets']:
            for server in subnet.get('dns', ()):
                service = {'type': 'dns', 'address': server}
                if service not in services:
                    services.append(service)
            for ip in subnet['ips']:
                networks.append({'id': f'network{len(networks)}', 'link': link, 'ip_address': ip['address'],
                                 'network_id': vif['network']['id'], **({'dns_search': [search]} if search else {}),
                                 **_configured(subnet, SECOND_METRIC + index - 1 if index else None)})
    return {'links': links, 'networks': networks, 'services': services}


def _carried(network_info: list[Vif]) -> list[tuple[Vif, str | None]]:
    """Return [(VIF, link of the parent port, or None if the VIF is no subport)]; subports follow their parent port."""
    found: list[tuple[Vif, str | None]] = []
    for vif in network_info:
        found.append((vif, None))
        found += [(subport, vif.get('devname') or vif['id']) for subport in vif.get('subports') or ()]
    return found


def _mtu(vif: Vif) -> int | None:
    """Return the MTU to configure in the guest, or None if DHCP or router advertisements announce it."""
    if any(subnet.get('dhcp_server') for subnet in vif['network']['subnets']):
        return None
    return vif['network'].get('mtu')


def _configured(subnet: Subnet, metric: int | None) -> dict[str, Any]:
    """Return the address configuration: SLAAC, DHCPv6 or DHCP if the network serves one of them, otherwise static.

    :param metric: metric of the default route; None leaves it to the guest OS
    """
    kind = f'ipv{subnet["version"]}'
    ranked = {'metric': metric} if metric else {}
    if mode := subnet.get('ipv6_address_mode'):
        return {'type': f'{kind}_{mode}', **ranked}
    if subnet.get('dhcp_server') or not subnet.get('cidr'):
        return {'type': f'{kind}_dhcp', **ranked}
    routes: list[tuple[str, str, dict[str, int]]] = [
        (route['destination'], route['nexthop'], {}) for route in subnet.get('routes') or ()]
    if gateway := subnet.get('gateway'):
        routes.append(('0.0.0.0/0' if subnet['version'] == 4 else '::/0', gateway, ranked))
    spans = [(ipaddress.ip_network(destination), hop, more) for destination, hop, more in routes]
    return {'type': kind, 'netmask': str(ipaddress.ip_network(subnet['cidr']).netmask),
            'routes': [{'network': str(span.network_address), 'netmask': str(span.netmask), 'gateway': hop, **more}
                       for span, hop, more in spans],
            # cloud-init of 2022 ignores the services of a network and, if there is a dns_search, the global services.
            # So the name servers are repeated in dns_nameservers.
            'dns_nameservers': list(subnet.get('dns', ())),
            'services': [{'type': 'dns', 'address': server} for server in subnet.get('dns', ())]}


def _vendor_data(instance: Instance) -> dict[str, str]:
    """Return vendor data for cloud-init: disk_config AUTO grows the root partition and its file system.

    https://cloudinit.readthedocs.io/en/latest/reference/modules.html
    """
    return {'cloud-init': GROW} if instance.disk_config == 'AUTO' else {}


def openstack_files(instance: Instance, injected_files: Collection[Any] = (), admin_password: str | None = None,
                    domain: str = '', devices: Iterable[Mapping[str, Any]] = ()) -> dict[str, bytes]:
    """Return {name below openstack/<version>/: bytes} of every document."""
    found = {
        'meta_data.json': utils.dump_json(
            meta_data(instance, injected_files, admin_password, domain, devices)).encode(),
        'network_data.json': utils.dump_json(network_data(instance.network_info, domain)).encode(),
        'vendor_data.json': utils.dump_json(_vendor_data(instance)).encode(),
        'vendor_data2.json': b'{}',
    }
    if instance.user_data:
        found['user_data'] = base64.b64decode(instance.user_data)
    return found


def ec2_document(instance: Instance, domain: str = '', devices: Iterable[Mapping[str, Any]] = ()) -> bytes:
    """Return the content of the config drive's ``ec2/*/meta-data.json``."""
    def plain(entry: Entry) -> Entry:
        if not isinstance(entry, Mapping):
            return entry
        index = {'_name': f'0={entry.name}'} if isinstance(entry, _NamedDirectory) else {}
        return {**index, **{name: plain(value) for name, value in entry.items()}}
    return utils.encode_json(plain(ec2_tree(instance, domain, devices=devices)['meta-data']))


def files(instance: Instance, network_info: list[Vif], injected_files: Collection[Any] = (),
          admin_password: str | None = None, domain: str = '', devices: Iterable[Mapping[str, Any]] = (),
          ) -> dict[str, bytes]:
    """Return {path in the config drive: bytes} for the newest and the ``latest`` version of both formats.

    :param network_info: the VIFs of the new server
    :param devices: as in ``meta_data``
    """
    instance = instance.obj_clone()
    instance.network_info, devices = network_info, list(devices)
    found = {}
    documents = openstack_files(instance, injected_files, admin_password, domain, devices)
    for version in (OPENSTACK_VERSIONS[-1], 'latest'):
        found.update({f'openstack/{version}/{name}': content for name, content in documents.items()})
    for index, (_path, content) in enumerate(injected_files):
        found['openstack' + content_path(index)] = content
    for version in (EC2_VERSIONS[-1], 'latest'):
        found[f'ec2/{version}/meta-data.json'] = ec2_document(instance, domain, devices)
        if 'user_data' in documents:
            found[f'ec2/{version}/user-data'] = documents['user_data']
    return found
