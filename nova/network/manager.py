"""Network service of one host: allocates ports of servers and keeps the host's network state up to date."""
import collections
import datetime
import logging
import threading
import time
from typing import Any

from oslo_config.cfg import ConfigOpts

from nova import context as nova_context
from nova import exception
from nova.objects.network_info import PortRequest
from nova.objects.network_info import Vif
from nova import utils
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.networks import guarantees
from nova.db.networks import leases as db_leases
from nova.db.networks import networks
from nova.db.networks import ports
from nova.db.networks import revisions
from nova.db.servers import ownership
from nova.network import allocation
from nova.network import attach
from nova.network import drivers
from nova.network import gateways
from nova.network import ipam
from nova.network import relay_keys
from nova.network import selection
from nova.network.agents import batched_calls
from nova.network.agents.endpoint import AgentEndpoint
from nova.network.agents.leases import LeaseReports
from nova.network.drivers import NetworkDriver
from nova.network.host import load as host_load
from nova.network.host.network import HostNetwork
from nova.network.host.state import HostState
from nova.network.host.state import Lease
from nova.network.interface import INTERFACE
from nova.objects import network_info
from nova.objects.instance import Instance
from nova.rpc.bus import Client
from nova.rpc.interface import Methods
from nova.rpc.interface import named
from nova.runtime import batching
from nova.runtime import metrics

LOG = logging.getLogger(__name__)

AUDIT_AGE_S = 120       # seconds from allocation to audit of a port: the server of a newer port may not be stored yet


class NetworkManager:
    """Allocates ports and applies one host's network state. Attachments and AgentEndpoint have the other RPC methods.

    methods  RPC methods of interface.py

    :param api_db: the API database
    :param host: name of this host
    :param driver: drivers.load(conf)
    :param cell_db: database of the hosts' cell, to find servers; None: compute hosts do not call this service
    :param others: RPC client of all network services, to notify them of changes; None: there are no others
    :param agents: RPC client of all agents, to notify them of changes; None: there are no agents
    """

    methods: Methods

    def __init__(self, conf: ConfigOpts, api_db: Database, host: str, driver: NetworkDriver,
                 cell_db: Database | None = None, others: Client | None = None, agents: Client | None = None) -> None:
        self.conf, self.api_db, self.host, self.driver = conf, api_db, host, driver
        self._cell_db = cell_db
        self._others, self._agents = others, agents
        self._address = str(conf.network.tunnel_address or conf.my_ip)
        self.gateways = gateways.Gateways(conf, api_db, host, self._address, drivers.forwards(driver))
        self._plumb = batching.CoalescedRun(self._plumb_once)
        self._check_host = threading.Event()                  # set: the next _plumb() repairs changes by other programs
        self._loaded: list[int] | None = None           # revision of the state that was loaded last
        self._plumbed: list[int] | None = None          # revision of the state that was applied to this host
        self._relay_key = relay_keys.RelayKey(api_db, host)
        self._refresh = batching.CoalescedRun(self._refresh_once)
        self._network = HostNetwork(conf, api_db, host, self._refresh)
        self._allocations = batched_calls.BatchedCalls(self._allocate, lambda order: order.instance.uuid)
        self._releases = batched_calls.BatchedCalls(self._release, lambda order: order.instance_uuid)
        self._recent_allocations: collections.deque[tuple[float, str]] = collections.deque()     # (time, server)
        self.attachments = attachments = attach.Attachments(self._network)
        self._leases = LeaseReports(driver, self._record_leases)
        agent_endpoint = AgentEndpoint(conf, api_db, self.gateways)
        self.methods = Methods(INTERFACE, named(
            self.allocate_for_instance, self.deallocate_for_instance,
            attachments.attach_port, attachments.find_port, attachments.detach_port, attachments.add_address,
            attachments.remove_address,
            self.setup_for_instance, self.unbind_ports, self.prepare_for_instance, self.unprepare_for_instance,
            self.network_info, self.refresh_ports,
            agent_endpoint.report_host, agent_endpoint.report_leases, agent_endpoint.host_state))

    def start(self) -> None:
        """Bring bridges, DHCP and filters of this host in line with the database. Running guests are not affected.

        Other hosts are not notified: they compare the revisions of the network state that their heartbeats return.
        """
        self.driver.start()
        self.gateways.report()
        self._plumb()

    def report(self) -> None:
        """Periodic task: send the heartbeat of this host, and catch up on missed notifications."""
        if self.gateways.report() != self._plumbed:
            self._plumb()
        self._leases.report()

    def _record_leases(self, leases: list[Lease]) -> None:
        self.api_db.run(db_leases.record, self.host, leases)

    def _plumb_once(self) -> None:
        look = self._check_host.is_set()
        self._check_host.clear()
        try:
            repaired = self.driver.refresh(self.load) if look else drivers.follow(self.driver, self.load)
        except BaseException:
            if look:
                self._check_host.set()
            raise
        for kind in repaired:
            metrics.NETWORK_REPAIRS.labels(kind).inc()
        self._plumbed = self._loaded        # an error leaves the old value, so the next report applies the state again

    def _refresh_once(self) -> None:
        """Apply the database's state to this host, and notify the other hosts."""
        self._plumb()
        if self._others is not None and self.gateways.others:
            try:
                self._others.refresh_ports(nova_context.admin_context(), port_ids=[])
            except exception.Unavailable as error:
                LOG.warning('Cannot notify other hosts of a change; they find it with their next report: %s', error)

    def _refresh_for(self, host: str) -> None:
        """Refresh if ``host`` is this host, or if there are other hosts to notify."""
        if host == self.host or self.gateways.others:
            self._refresh()

    def sync(self) -> None:
        """Periodic task: undo changes of other programs on the host, and delete rows of addresses after quarantine."""
        self._check_host.set()
        self._plumb()
        self._leases.report(whole=True)
        self.api_db.run(networks.forget_resting, ipam.quarantine_cutoff(2 * self.conf.network.dhcp_lease_time))

    def load(self) -> HostState:
        """Load the state of this host."""
        key = self._relay_key()
        with self.api_db.reader() as conn:
            self._loaded = revisions.current(conn)  # read first: if the state is newer, the next report loads it again
            return host_load.load(conn, self.host, network_info.devname, self.conf.network.physical_networks,
                                  self._address, key, self.gateways.distributed,
                                  move_key=self._relay_key.migration_key)

    # ---- RPC methods -----------------------------------------------------------------

    def allocate_for_instance(self, context: nova_context.RequestContext, instance: Instance,
                              requested_networks: list[PortRequest] | str | None,
                              security_groups: list[str] | None, host: str) -> list[Vif]:
        """Allocate ports and addresses for a server, plug the ports, and return the VIFs. Idempotent.

        :param requested_networks: None or 'auto', 'none', or [{'network_id', 'port_id', 'fixed_ip', 'tag'}]
        :raises NetworkNotFound, PortNotFound, PortInUse, FixedIpInUse, NoMoreFixedIps, NetworkAmbiguous,
            NetworkRequestInvalid,
            SecurityGroupNotFound, PortBindingFailed:
        :raises InstanceChanged: another host builds the server now
        """
        if requested_networks == 'none' or requested_networks == []:
            return []
        vifs = self._allocations(instance.project_id, allocation.AllocationRequest(
            instance, selection.normalized(requested_networks), security_groups, host))
        if vifs:
            self._recent_allocations.append((time.monotonic(), instance.uuid))
            self._refresh_for(host)
        return vifs

    def deallocate_for_instance(self, context: nova_context.RequestContext, instance_uuid: str,
                                host: str | None) -> None:
        """Release the ports and addresses of a server, if it has any.

        :param host: release only ports that no other host has taken over; None: all ports
        """
        caller = context.sender_host
        may = None if caller is None else lambda rows: self._releasable_by(rows, instance_uuid, caller)
        if self._releases('', allocation.ReleaseRequest(instance_uuid, host, may)):
            self._refresh()

    def _releasable_by(self, rows: list[Any], instance_uuid: str, caller: str) -> list[Any]:
        """Return the ports that a host may release: all if the server is on the host, otherwise the ports on the host.

        The server's host is read only if a port is on another host.
        """
        if any(row.host != caller for row in rows):
            assert self._cell_db is not None         # ``caller`` is a compute host
            with self._cell_db.reader() as conn:
                server = ownership.server(conn, instance_uuid)
            if server is None or server.host != caller:
                return [row for row in rows if row.host == caller]
        return rows

    def setup_for_instance(self, context: nova_context.RequestContext, instance: Instance,
                           host: str) -> list[Vif]:
        """Set up the plumbing of an existing server, and return its current VIFs.

        :raises PortBindingFailed: the server's new host lacks resources that the ports request
        """
        def move(conn: Connection) -> list[Vif]:
            rows = ports.of_device(conn, instance.uuid)
            if any(row['host'] != host or row['migrating_to'] == host for row in rows):
                ports.move(conn, instance.uuid, host)
                guarantees.claim_server(conn, instance.uuid, host)
            return self._network.vifs(conn, rows)

        vifs = self.api_db.run(move)
        if vifs:
            self._refresh_for(host)
        return vifs

    def prepare_for_instance(self, context: nova_context.RequestContext, instance: Instance,
                             host: str) -> list[Vif]:
        """Prepare the destination host of a migrating server, and return the server's VIFs there.

        :raises PortBindingFailed: the host lacks resources that the server's ports request
        """
        def prepare(conn: Connection) -> list[Vif]:
            ports.expect(conn, instance.uuid, host)
            guarantees.claim_server(conn, instance.uuid, host)
            return self._network.vifs(conn, ports.of_device(conn, instance.uuid))

        vifs = self.api_db.run(prepare)
        if vifs:                # all hosts must know the migration before the guest runs at its destination
            self._refresh_for(host)
        return vifs

    def unprepare_for_instance(self, context: nova_context.RequestContext, instance_uuid: str, host: str) -> None:
        if self.api_db.run(ports.forget_expected, instance_uuid, host):
            self._refresh_for(host)

    def network_info(self, context: nova_context.RequestContext, instance_uuid: str) -> list[Vif]:
        with self.api_db.reader() as conn:
            return self._network.vifs(conn, ports.of_device(conn, instance_uuid))

    def unbind_ports(self, context: nova_context.RequestContext, instance_uuid: str, host: str) -> None:
        """Unbind the ports of a server that left ``host`` and is on no host. The ports stay allocated."""
        self.api_db.run(ports.leave, instance_uuid, host)
        self._refresh_for(host)

    def refresh_ports(self, context: nova_context.RequestContext, port_ids: list[str]) -> None:
        """Apply changed ports, groups or rules to this host, and notify agents.

        Each network service notifies all agents, so that one available service is enough. Agents coalesce notifications
        that arrive while they apply a state.
        """
        if self._agents is not None and self.gateways.others:
            try:
                self._agents.host_state_changed(nova_context.admin_context())
            except exception.Unavailable as error:
                LOG.warning('Cannot notify agents of a change; they find it with their next report: %s', error)
        self._plumb()

    # ---- periodic -------------------------------------------------------------------

    def recent_allocations(self) -> set[str]:
        """Return the uuids of servers that got ports more than AUDIT_AGE_S ago, and remove them from the queue.

        Late or repeated messages may have allocated ports for deleted servers. The caller passes the uuids to
        ``audit``.
        """
        until, found = time.monotonic() - AUDIT_AGE_S, set()
        while self._recent_allocations and self._recent_allocations[0][0] < until:
            found.add(self._recent_allocations.popleft()[1])
        return found

    def audit(self, live_instances: list[str] | set[str], among: set[str] | None = None) -> list[str]:
        """Release the ports of servers that no longer exist; return the servers' uuids.

        :param live_instances: uuids of existing servers, read after ``among``
        :param among: uuids to check; None: all servers with ports
        """
        with self.api_db.reader() as conn:
            left = (ports.devices(conn) if among is None else among) - set(live_instances)
            before = utils.utcnow() - datetime.timedelta(seconds=AUDIT_AGE_S)
            gone = ports.older_devices(conn, left, before) if left else []
        if gone:
            LOG.warning('Releasing the ports of %d servers that no longer exist: %s', len(gone), ', '.join(gone))
            self.api_db.run(ports.give_back, gone)
            self._refresh()
        return gone

    # ---- one transaction for several callers ------------------------------------------

    def _allocate(self, orders: list[allocation.AllocationRequest]) -> list[list[Vif]]:
        return self.api_db.run(ipam.retry_on_duplicate(
            lambda conn: allocation.Allocation(conn, self._network, orders).run()))

    def _release(self, orders: list[allocation.ReleaseRequest]) -> list[int]:
        return self.api_db.run(allocation.release, orders)
