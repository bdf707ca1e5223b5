"""Build a server's network information (nova/objects/network_info.py) from Neutron's data: pure functions."""
from collections.abc import Mapping
from typing import Any

from nova import exception
from nova.network.neutron import devices
from nova.network.neutron import documents
from nova.network.neutron.documents import Network
from nova.network.neutron.documents import Port
from nova.network.neutron.documents import Subnet
from nova.objects import network_info

Document = dict[str, Any]

# Binding profile keys of a server's port. Users can neither read nor write the profile.
MADE = 'nova_made'                # the port was created for the server and is deleted with it
KEY = 'nova_key'                  # key by which a repeated attach request finds the port
REQUEST = 'nova_request'          # id of the attaching request
POSITION = 'nova_position'        # index among the server's ports
TAG = 'nova_tag'                  # tag of the device in the guest
NAMED = 'nova_named'              # this service has set dns_name
ALLOCATION = 'allocation'         # providers of the requested resources; Neutron defines this key
OURS = (MADE, KEY, REQUEST, POSITION, TAG, NAMED, ALLOCATION, *devices.KEYS)
UNBOUND = ('', 'unbound', 'binding_failed')


def profile(port: Port) -> Document:
    """Return the binding profile of a port."""
    return port.get('binding:profile') or {}


def binding_of(port: Port) -> documents.Binding:
    """Return the active binding of a port, without its profile."""
    return {'vif_type': port.get('binding:vif_type'), 'vif_details': port.get('binding:vif_details'),
            'vnic_type': port.get('binding:vnic_type')}


def sort_ports(ports: list[Port]) -> list[Port]:
    """Return a server's ports in the order of their positions."""
    return sorted(ports, key=lambda port: (profile(port).get(POSITION, 1 << 30), port.get('created_at') or '',
                                           port['id']))


def vif(port: Port, network: Network, subnets: list[Subnet], floating: Mapping[str, list[str]],
        binding: documents.Binding | None = None) -> network_info.Vif:
    """Return the VIF of a port.

    :param floating: {fixed address: [floating addresses]}
    :param binding: {'vif_type', 'vif_details', 'profile', 'vnic_type'} of an inactive binding
    """
    bound = binding or binding_of(port)
    details = bound.get('vif_details') or {}
    kind = bound.get('vif_type') or 'unbound'
    bridge = details.get('bridge_name') or ''
    if kind == 'bridge' and not bridge:
        bridge = ('brq' + network['id'])[:14]        # bridge name that the Linux bridge agent uses
    slot = (binding['profile'] if binding and binding.get('profile') else profile(port)).get(devices.SLOT)
    found: network_info.Vif = {
        'id': port['id'], 'address': port['mac_address'], 'type': kind,
        'devname': network_info.devname(port['id']), 'active': port.get('status') == 'ACTIVE',
        'tag': profile(port).get(TAG), 'vnic_type': bound.get('vnic_type') or 'normal', 'details': details,
        'network': {
            'id': network['id'], 'label': network['name'], 'bridge': bridge or ('br-int' if kind == 'ovs' else ''),
            'mtu': network.get('mtu'), 'dns_domain': (network.get('dns_domain') or '').rstrip('.'),
            'subnets': [_subnet(subnet, port, floating) for subnet in subnets
                        if any(ip['subnet_id'] == subnet['id'] for ip in port['fixed_ips'])],
        },
    }
    if slot:
        found['pci_slot'] = slot
    return found


def _subnet(subnet: Subnet, port: Port, floating: Mapping[str, list[str]]) -> network_info.Subnet:
    gateway = subnet.get('gateway_ip')
    return {
        'id': subnet['id'], 'cidr': subnet['cidr'], 'version': subnet['ip_version'], 'gateway': gateway,
        'dns': subnet.get('dns_nameservers') or [], 'routes': subnet.get('host_routes') or [],
        'dhcp_server': gateway if subnet.get('enable_dhcp') else None,
        'ipv6_address_mode': subnet.get('ipv6_address_mode'),
        'ips': [{'address': ip['ip_address'], 'type': 'fixed', 'floating_ips': [
            {'address': address} for address in floating.get(ip['ip_address'], ())]}
            for ip in port['fixed_ips'] if ip['subnet_id'] == subnet['id']],
    }


def check_bound(port: Port, binding: documents.Binding, host: str) -> None:
    """Check that a binding succeeded; raises PortBindingFailed (no agent of the host can bind the port)."""
    kind = binding.get('vif_type') or 'unbound'
    if kind in UNBOUND:
        raise exception.PortBindingFailed(
            reason=f'port {port["id"]} has the binding {kind} on host {host}. Check that a live agent of the '
                   'Networking service is registered there with this host name.')


def placement_required(port: Port) -> exception.NetworkRequestInvalid:
    """Return the error for a port with a resource request in a deployment without Placement service."""
    return exception.NetworkRequestInvalid(
        reason=f'port {port["id"]} has a QoS policy with a guaranteed bandwidth or packet rate, which needs a '
               'Placement service. Configure [placement], or use a policy without a guarantee.')


def check_usable(port: Port, guaranteed: bool) -> None:
    """Check that compute hosts can plug a port.

    :param guaranteed: whether the deployment has a Placement service
    :raises NetworkRequestInvalid: unsupported vnic_type, or a resource request without Placement
    """
    kind = devices.vnic_type(port)
    if kind not in ('normal', *devices.TYPES) or 'switchdev' in (profile(port).get('capabilities') or ()):
        raise exception.NetworkRequestInvalid(
            reason=f'port {port["id"]} has vnic_type {kind} or hardware offload (switchdev), which is not supported. '
                   f'Use vnic_type normal, {" or ".join(devices.TYPES)}, or whole devices by aliases in the flavor '
                   '(pci_passthrough:alias).')
    if port.get('resource_request') and not guaranteed:
        raise placement_required(port)
