"""Neutron floating IPs for the deprecated compute API calls; see nova.network.floating."""
import ipaddress

from nova import exception
from nova.context import RequestContext
from nova.network.neutron import client
from nova.network.neutron import documents
from nova.network.neutron import network_selection
from nova.network.neutron import vifs
from nova.objects.network_info import FloatingIp

KIND = documents.FLOATING_IPS


class FloatingIps:
    """Operations of one caller on floating IPs.

    :param default_pool: default_floating_pool in [neutron]
    """

    def __init__(self, neutron: client.Neutron, context: RequestContext, default_pool: str) -> None:
        self._neutron, self._context, self._default = neutron, context, default_pool

    def _outside(self) -> dict[str, str]:
        """Return {id: name} of the external networks."""
        rows = self._neutron.list(self._context, documents.NETWORKS, **{'router:external': 'True'})
        return {row['id']: row['name'] or row['id'] for row in rows}

    def pools(self) -> list[str]:
        return sorted(self._outside().values())

    def all(self) -> list[FloatingIp]:
        rows = self._neutron.list(self._context, KIND, project_id=self._context.project_id)
        return self._shown(sorted(rows, key=lambda row: (row['floating_ip_address'], row['id'])))

    def show(self, ident: str) -> FloatingIp:
        return self._shown([self._row(ident)])[0]

    def create(self, pool: str | None) -> FloatingIp:
        wanted, outside = pool or self._default, self._outside()
        fits = [ident for ident, name in outside.items() if wanted in (ident, name)]
        if len(fits) != 1:
            raise exception.NotFound(f'Floating IP pool {wanted[:80]} could not be found.' if wanted else
                                     'There is no default floating IP pool. Name a pool.')
        try:
            row = self._neutron.create(self._context, KIND, {
                'floating_network_id': fits[0], 'project_id': self._context.project_id})
        except exception.NoMoreFixedIps as error:
            raise exception.NotFound(error.message) from None
        return self._shown([row])[0]

    def delete(self, ident: str) -> None:
        self._neutron.delete(self._context, KIND, self._row(ident)['id'], _missing(ident))

    def add(self, instance_uuid: str, address: str, fixed: str | None) -> None:
        row = self._of_address(address)
        places = [(port['id'], ip['ip_address']) for port in self._ports(instance_uuid) for ip in port['fixed_ips']
                  if ipaddress.ip_address(ip['ip_address']).version == 4 and fixed in (None, ip['ip_address'])]
        if not places:
            raise exception.BadRequest(f'The server has no address {fixed}.' if fixed else
                                       'The server has no IPv4 address for a floating IP.')
        port_id, fixed_ip = places[0]
        self._change(row, {'port_id': port_id, 'fixed_ip_address': fixed_ip})

    def remove(self, instance_uuid: str, address: str) -> None:
        row = self._of_address(address)
        ports = self._neutron.list(self._context, documents.PORTS, device_id=instance_uuid)
        if row['port_id'] not in {port['id'] for port in ports}:
            raise exception.Conflict(f'Floating IP {address} is not associated with the server.')
        self._change(row, {'port_id': None})

    def _ports(self, instance_uuid: str) -> list[documents.Port]:
        """Return the server's ports that the caller sees, in order. Callers do not see the positions of ports."""
        ports = self._neutron.list(self._context, documents.PORTS, device_id=instance_uuid)
        if len(ports) < 2:
            return ports
        rows = self._neutron.list(network_selection.system(self._context), documents.PORTS, device_id=instance_uuid)
        order = [row['id'] for row in vifs.sort_ports(rows)]
        return sorted((port for port in ports if port['id'] in order), key=lambda port: order.index(port['id']))

    def _change(self, row: documents.FloatingIp, values: FloatingIp) -> None:
        try:
            self._neutron.update(self._context, KIND, row['id'], values, _missing(row['id']))
        except (exception.NetworkConflict, exception.NetworkRequestInvalid) as error:
            raise exception.BadRequest(error.message) from None

    def _row(self, ident: str) -> documents.FloatingIp:
        row = self._neutron.show(self._context, KIND, ident, _missing(ident))
        if row['project_id'] != self._context.project_id and not self._context.is_admin:
            raise _missing(ident)
        return row

    def _of_address(self, address: str) -> documents.FloatingIp:
        for row in self._neutron.list(self._context, KIND, floating_ip_address=address):
            if row['project_id'] == self._context.project_id or self._context.is_admin:
                return row
        raise _missing(address)

    def _shown(self, rows: list[documents.FloatingIp]) -> list[FloatingIp]:
        names = self._outside() if rows else {}
        ports = {port['id']: port for port in self._neutron.list(
            self._context, documents.PORTS, id={row['port_id'] for row in rows if row.get('port_id')})}
        return [{'id': row['id'], 'ip': row['floating_ip_address'],
                 'pool': names.get(row['floating_network_id'], row['floating_network_id']),
                 'fixed_ip': row.get('fixed_ip_address'),
                 'instance_id': ports.get(row.get('port_id') or '', {}).get('device_id') or None} for row in rows]


def _missing(ident: str) -> exception.NovaException:
    return exception.NotFound(f'Floating IP {ident[:80]} could not be found.')
