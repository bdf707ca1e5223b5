"""The network service of one host: gives servers their ports and keeps the host's plumbing as the database
says."""
from __future__ import annotations

import collections
import datetime
import logging
import threading
import time
from typing import Any, TYPE_CHECKING

from oslo_config.cfg import ConfigOpts

from nova import context as nova_context
from nova import exception
from nova import utils
from nova.db.engine import Connection
from nova.db.networks import leases as db_leases
from nova.db.networks import networks
from nova.db.networks import ports
from nova.db.networks import revisions
from nova.db.servers import ownership
from nova.network import allocation
from nova.network import attach
from nova.network import drivers
from nova.network import gateways
from nova.network.host import load as host_load
from nova.network import ipam
from nova.network import migrate
from nova.network import relay_keys
from nova.network import selection
from nova.network.agents.served import AgentHosts
from nova.network.agents.combined import Combined
from nova.network.agents import joined
from nova.network.agents.leases import LeaseReports
from nova.network.host.network import HostNetwork
from nova.network.interface import INTERFACE
from nova.objects import network_info
from nova.rpc.interface import Methods
from nova.runtime import metrics

if TYPE_CHECKING:
    from nova.db.engine import Database
    from nova.network.drivers import NetworkDriver
    from nova.objects.instance import Instance

LOG = logging.getLogger(__name__)

AUDIT_AGE_S = 120       # ports younger than this may belong to a server whose row is not visible yet


class NetworkManager:
    """The allocation of ports and the plumbing of a host; each other kind of work is an attribute.

    methods  what serves interface.py

    :param api_db: the API database
    :param host: name of this host
    :param driver: drivers.load(conf)
    :param cell_db: Database of the cell whose hosts it serves: says where servers are; None: no host asks
    :param others: client of the network services of all hosts, whose plumbing follows; None: there are none
    :param agents: client of the agents of all hosts, whose plumbing follows; None: there are none
    """

    methods: Methods

    def __init__(self, conf: ConfigOpts, api_db: Database, host: str, driver: NetworkDriver,
                 cell_db: Database | None = None, others: Any = None, agents: Any = None) -> None:
        self.conf, self.api_db, self.host, self.driver = conf, api_db, host, driver
        self._cell_db = cell_db
        self._others, self._agents = others, agents
        self._address = str(conf.network.tunnel_address or conf.my_ip)
        self.gateways = gateways.Gateways(conf, api_db, host, self._address, drivers.forwards(driver))
        self._plumb = Combined(self._plumb_once)
        self._look = threading.Event()                  # the next run looks at all of the host
        self._loaded: list[int] | None = None           # the revision that was last read, and
        self._plumbed: list[int] | None = None          # the one that this host has
        self._relay_key = relay_keys.RelayKey(api_db, host)
        self._refresh = Combined(self._refresh_once)
        self._network = HostNetwork(conf, api_db, host, self._refresh)
        self._allocations = joined.Joined(self._allocate, lambda order: order.instance.uuid)
        self._returns = joined.Joined(self._give_back, lambda order: order.instance_uuid)
        self._given: collections.deque[tuple[float, str]] = collections.deque()      # (when, server), oldest first
        self.attachments = attachments = attach.Attachments(self._network)
        self.migrations = migrations = migrate.Migrations(self._network, self.gateways)
        self._leases = LeaseReports(driver, self._record_leases)
        agent_hosts = AgentHosts(conf, api_db, self.gateways)
        self.methods = Methods(INTERFACE, {
            'allocate_for_instance': self.allocate_for_instance,
            'deallocate_for_instance': self.deallocate_for_instance,
            'attach_port': attachments.attach_port, 'find_port': attachments.find_port,
            'detach_port': attachments.detach_port,
            'add_address': attachments.add_address, 'remove_address': attachments.remove_address,
            'setup_for_instance': self.setup_for_instance, 'leave_host': self.leave_host,
            'prepare_for_instance': migrations.prepare_for_instance,
            'unprepare_for_instance': migrations.unprepare_for_instance,
            'network_info': migrations.network_info,
            'refresh_security': self.refresh_security,
            'report_host': agent_hosts.report_host, 'report_leases': agent_hosts.report_leases,
            'host_state': agent_hosts.host_state,
        })

    def start(self) -> None:
        """Bring bridges, DHCP and filters of this host in line with the database; guests go on
        undisturbed.

        Other hosts see by the revision whether there is anything for them.
        """
        self.driver.start()
        self.gateways.report()
        self._plumb()

    def report(self) -> None:
        """Periodic: say that this host is there, and follow what no notification has said."""
        if self.gateways.report() != self._plumbed:
            self._plumb()
        self._leases.report()

    def _record_leases(self, leases: list[dict[str, Any]]) -> None:
        self.api_db.run(db_leases.record, self.host, leases)

    def _plumb_once(self) -> None:
        look = self._look.is_set()
        self._look.clear()
        for kind in self.driver.refresh(self.load) if look else drivers.follow(self.driver, self.load):
            metrics.NETWORK_MENDED.labels(kind).inc()
        self._plumbed = self._loaded        # not before: what failed is done again with the next report

    def _refresh_once(self) -> None:
        """Bring the plumbing of this host in line with the database, and have other hosts do so."""
        self._plumb()
        if self._others is not None and self.gateways.others:
            try:
                self._others.refresh_security(nova_context.admin_context(), port_ids=[])
            except exception.Unavailable as error:
                LOG.warning('Other hosts were not notified of a change, and find it by their next report: %s', error)

    def sync(self) -> None:
        """Periodic: repair what others changed on the host, and free the addresses whose quarantine is over."""
        self._look.set()
        self._plumb()
        self._leases.report(whole=True)
        self.api_db.run(networks.forget_resting, ipam.quarantine(2 * self.conf.network.dhcp_lease_time))

    def load(self) -> Any:
        """The host_state.HostState that the database has for this host."""
        key = self._relay_key()
        with self.api_db.reader() as conn:
            self._loaded = revisions.current(conn)          # before the rest, which is at least as new
            return host_load.load(conn, self.host, network_info.devname, self.conf.network.physical_networks,
                                  self._address, key, self.gateways.distributed(conn),
                                  move_key=self._relay_key.of_move)

    # ---- rows of the interface -------------------------------------------------------

    def allocate_for_instance(self, context: nova_context.RequestContext, instance: Instance,
                              requested_networks: list[selection.Request] | str | None,
                              security_groups: list[str] | None, host: str) -> list[dict[str, Any]]:
        """Ports, addresses and plumbing for a server -> list of VIFs; the same ones when called again.

        :param requested_networks: None or 'auto', 'none', or [{'network_id', 'port_id', 'fixed_ip', 'tag'}]
        :raises NetworkNotFound, PortNotFound, PortInUse, FixedIpInUse, NoMoreFixedIps, NetworkAmbiguous,
                NetworkRequestInvalid, SecurityGroupNotFound:
        :raises InstanceChanged: it is being built on another host by now
        """
        if requested_networks == 'none' or requested_networks == []:
            return []
        vifs = self._allocations(instance.project_id, allocation.Order(
            instance, selection.normalized(requested_networks), security_groups, host))
        if vifs:
            self._given.append((time.monotonic(), instance.uuid))
            if host == self.host or self.gateways.others:
                self._refresh()
        return vifs

    def deallocate_for_instance(self, context: nova_context.RequestContext, instance_uuid: str,
                                host: str | None) -> None:
        """Give back ports and addresses; nothing happens when there are none.

        :param host: None: all of them; else those that no other host has got meanwhile
        """
        caller = context.sender_host
        may = None if caller is None else lambda rows: self._of_caller(rows, instance_uuid, caller)
        if self._returns('', allocation.Return(instance_uuid, host, may)):
            self._refresh()

    def _of_caller(self, rows: list[Any], instance_uuid: str, caller: str) -> list[Any]:
        """Those of a server's ports that a compute host may give back: all of one that is there, else those that are.

        Read the server's host only when a port is on another host.
        """
        if any(row.host != caller for row in rows):
            assert self._cell_db is not None         # hosts ask
            with self._cell_db.reader() as conn:
                server = ownership.server(conn, instance_uuid)
            if server is None or server.host != caller:
                return [row for row in rows if row.host == caller]
        return rows

    def setup_for_instance(self, context: nova_context.RequestContext, instance: Instance,
                           host: str) -> list[dict[str, str]]:
        """Plumbing of a server that exists -> list of VIFs as they are now."""
        def move(conn: Connection) -> list[dict[str, str]]:
            rows = ports.of_device(conn, instance.uuid)
            if any(row['host'] != host or row['migrating_to'] == host for row in rows):
                ports.move(conn, instance.uuid, host)
            return self._network.vifs(conn, rows)

        vifs = self.api_db.run(move)
        if vifs and (host == self.host or self.gateways.others):
            self._refresh()
        return vifs

    def leave_host(self, context: nova_context.RequestContext, instance_uuid: str, host: str) -> None:
        """The server has left its host and is on none; ports and addresses stay its own."""
        self.api_db.run(ports.leave, instance_uuid, host)
        if host == self.host:
            self._refresh()

    def refresh_security(self, context: nova_context.RequestContext, port_ids: list[str]) -> None:
        """Ports, groups or rules changed somewhere: bring this host in line, and have agents do so.

        Each of several services notifies all agents: one that is away loses no notification, and agents join what comes
        while they look.
        """
        if self._agents is not None and self.gateways.others:
            try:
                self._agents.changed(nova_context.admin_context())
            except exception.Unavailable as error:
                LOG.warning('Agents were not notified of a change, and find it by their next report: %s', error)
        self._plumb()

    # ---- periodic -------------------------------------------------------------------

    def given_before(self) -> set[str]:
        """Uuids of the servers that this service gave ports to some time ago; each is named once.

        A message that came late, or twice, may have been for one that was gone: ``audit`` finds out.
        """
        until, found = time.monotonic() - AUDIT_AGE_S, set()
        while self._given and self._given[0][0] < until:
            found.add(self._given.popleft()[1])
        return found

    def audit(self, live_instances: list[str] | set[str], among: set[str] | None = None) -> list[str]:
        """Give back the ports of servers that no longer exist; return their uuids.

        :param live_instances: uuids of all servers, read after the call was decided on
        :param among: uuids of those that are looked at, a set; None: all that have ports
        """
        with self.api_db.reader() as conn:
            left = (ports.devices(conn) if among is None else among) - set(live_instances)
            before = utils.utcnow() - datetime.timedelta(seconds=AUDIT_AGE_S)
            gone = ports.older_devices(conn, left, before) if left else []
        if gone:
            LOG.warning(
                'Giving back the ports of %d servers that no longer exist: %s', len(gone), ', '.join(gone)
            )
            self.api_db.run(ports.give_back, gone)
            self._refresh()
        return gone

    # ---- transactions of many callers -------------------------------------------------

    def _allocate(self, orders: list[allocation.Order]) -> list[list[dict[str, Any]]]:
        return self.api_db.run(ipam.arbitrated(
            lambda conn: allocation.Allocation(conn, self._network, orders).run()))

    def _give_back(self, orders: list[allocation.Return]) -> list[int]:
        return self.api_db.run(allocation.give_back, orders)
