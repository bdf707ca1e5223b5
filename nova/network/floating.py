"""Floating addresses of the embedded network service for the deprecated compute API calls."""
from collections.abc import Callable
from typing import TypeVar

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.networks import networks
from nova.db.networks import ports
from nova.db.tables import network as t
from nova.db.tables.rows import FloatingIpsRow
from nova.network import caller_rules
from nova.network import ipam
from nova.network.rest import floating_ips as operations
from nova.network.rest.request import Deps
from nova.network.rest.values import FloatingipValues
from nova.objects.network_info import FloatingIp

Found = TypeVar('Found')


class FloatingIps:
    """Operations of one caller on floating IPs."""

    def __init__(self, api_db: Database, conf: ConfigOpts, context: RequestContext,
                 rules: caller_rules.CallerRules) -> None:
        self._api_db, self._deps, self._context, self._rules = api_db, Deps(conf, api_db), context, rules

    def pools(self) -> list[str]:
        """Return the names of the external networks."""
        with self._api_db.reader() as conn:
            return sorted(self._outside(conn).values())

    def all(self) -> list[FloatingIp]:
        """Return the floating IPs of the caller's project."""
        with self._api_db.reader() as conn:
            rows = self._rules.readable(conn, self._context, 'get_floatingip', networks.many(
                conn, t.floating_ips, [self._context.project_id], 'project_id'))
            return self._shown(conn, sorted(rows, key=lambda row: (row['floating_ip_address'], row['id'])))

    def show(self, ident: str) -> FloatingIp:
        """Return one floating IP; raises NotFound (the project has no floating IP with this id)."""
        with self._api_db.reader() as conn:
            row = self._row(conn, ident)
            if not self._rules.allows(conn, self._context, 'get_floatingip', row):
                raise _missing(ident)
            return self._shown(conn, [row])[0]

    def create(self, pool: str | None) -> FloatingIp:
        """Allocate a floating IP.

        :param pool: name or id of a pool; None: the only pool
        :raises NotFound: no such pool, or no free address
        """
        def make(conn: Connection) -> FloatingIp:
            outside = self._outside(conn)
            fits = [ident for ident, name in outside.items() if pool in (None, ident, name)]
            if len(fits) != 1:
                raise exception.NotFound(f'Floating IP pool {pool[:80]} could not be found.' if pool else
                                         'There is no default floating IP pool. Name a pool.')
            self._rules.check(conn, self._context, 'create_floatingip', {'project_id': self._context.project_id})
            ident = operations.create(conn, self._deps, self._context, {
                'floating_network_id': fits[0], 'floating_ip_address': None, 'subnet_id': None, 'port_id': None,
                'fixed_ip_address': None, 'description': ''})
            return self._shown(conn, [self._row(conn, ident)])[0]
        try:
            return self._run(make)
        except exception.NoMoreFixedIps as error:
            raise exception.NotFound(error.message) from None

    def delete(self, ident: str) -> None:
        def drop(conn: Connection) -> None:
            row = self._row(conn, ident)
            self._rules.check(conn, self._context, 'delete_floatingip', row)
            operations.delete(conn, self._deps, self._context, row)
        self._run(drop)

    def add(self, instance_uuid: str, address: str, fixed: str | None) -> None:
        """Associate a floating address with the address ``fixed`` of a server; None: with its first IPv4 address."""
        def change(conn: Connection) -> None:
            row = self._of_address(conn, address)
            idents = [port['id'] for port in ports.of_device(conn, instance_uuid)]
            held = networks.addresses_of(conn, idents)
            places = [(port, entry['ip_address']) for port in idents for entry in held.get(port, ())
                      if '.' in entry['ip_address'] and fixed in (None, entry['ip_address'])]
            if not places:
                raise exception.BadRequest(f'The server has no address {fixed}.' if fixed else
                                           'The server has no IPv4 address for a floating IP.')
            port, fixed_ip = places[0]
            self._update(conn, row, {'port_id': port, 'fixed_ip_address': fixed_ip})
        self._run(change)

    def remove(self, instance_uuid: str, address: str) -> None:
        def change(conn: Connection) -> None:
            row = self._of_address(conn, address)
            if row['port_id'] not in {port['id'] for port in ports.of_device(conn, instance_uuid)}:
                raise exception.Conflict(f'Floating IP {address} is not associated with the server.')
            self._update(conn, row, {'port_id': None})
        self._run(change)

    def _update(self, conn: Connection, row: FloatingIpsRow, values: FloatingipValues) -> None:
        self._rules.check(conn, self._context, 'update_floatingip', row)
        try:
            operations.update(conn, self._deps, self._context, row, values)
        # no router connects the port, or the server's address already has another floating address
        except (exception.Conflict, exception.NotFound) as error:
            raise exception.BadRequest(error.message) from None

    def _run(self, function: Callable[[Connection], Found]) -> Found:
        return self._api_db.run(ipam.retry_on_duplicate(function))

    def _outside(self, conn: Connection) -> dict[str, str]:
        """Return {id: name} of the external networks."""
        rows = networks.page(conn, t.networks, networks.visible(self._context) & t.networks.c.external,
                             [('id', 'asc')], None, None)
        return {row['id']: row['name'] or row['id'] for row in rows
                if self._rules.allows(conn, self._context, 'get_network', row)}

    def _row(self, conn: Connection, ident: str) -> FloatingIpsRow:
        row = networks.seen(conn, t.floating_ips, networks.own(t.floating_ips)(self._context), ident[:255])
        if row is None:
            raise _missing(ident)
        return row

    def _of_address(self, conn: Connection, address: str) -> FloatingIpsRow:
        for row in networks.many(conn, t.floating_ips, [address], 'floating_ip_address'):
            if row['project_id'] == self._context.project_id or self._context.is_admin:
                return row
        raise _missing(address)

    def _shown(self, conn: Connection, rows: list[FloatingIpsRow]) -> list[FloatingIp]:
        names = self._outside(conn) if rows else {}
        held = ports.seen(conn, self._context, {row['port_id'] for row in rows if row['port_id']})
        return [{'id': row['id'], 'ip': row['floating_ip_address'],
                 'pool': names.get(row['floating_network_id'], row['floating_network_id']),
                 'fixed_ip': row['fixed_ip_address'],
                 'instance_id': held[row['port_id']]['device_id'] or None if row['port_id'] in held else None}
                for row in rows]


def _missing(ident: str) -> exception.NovaException:
    return exception.NotFound(f'Floating IP {ident[:80]} could not be found.')
