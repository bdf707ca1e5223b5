"""Linux network driver: bridges, DHCP and filters with iproute2, dnsmasq and nftables. Needs root.

Bridges, dnsmasq and the kernel's filters outlive the service. ``refresh`` changes only objects that differ.
"""
import dataclasses
import ipaddress
import json
import logging
import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any, TypeVarTuple, Unpack

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.network.host import state as host_state
from nova.network.linux import bridge
from nova.network.linux import dhcp
from nova.network.linux import dnsmasq_files
from nova.network.linux import flow_offload
from nova.network.linux import frames
from nova.network.linux import guarantees
from nova.network.linux import leases
from nova.network.linux import limits
from nova.network.linux import metadata
from nova.network.linux import namespaces
from nova.network.linux import overlay
from nova.network.linux import overlay_dnsmasq
from nova.network.linux import router
from nova.network.linux import rules
from nova.network.linux import runner
from nova.network.linux import switchover_process
from nova.network.linux import trunks

LOG = logging.getLogger(__name__)

COMMANDS = {'ip': 'iproute2', 'bridge': 'iproute2', 'nft': 'nftables', 'dnsmasq': 'dnsmasq-base'}
PATH = '/usr/sbin:/usr/bin:/sbin:/bin'
# Below /run: dnsmasq drops root and could not read a private state directory. The files are not needed after a reboot.
RUN_DIRECTORY = '/run/nova-network'
_Arguments = TypeVarTuple('_Arguments')


class LinuxDriver:
    """The networks of this host: flat networks in the host's routing table, overlays, and routers.

    :param conf: the configuration
    :param run: a Runner
    """

    def __init__(self, conf: ConfigOpts, run: runner.Runner | None = None) -> None:
        self.conf, self.run = conf, run or runner.Runner()
        self.table = rules.table_name(conf.network.bridge)
        self.directory = pathlib.Path(RUN_DIRECTORY) / conf.network.bridge
        self.overlays, self.routers = self.directory / 'overlays', self.directory / 'routers'
        self.trunks = self.directory / 'trunks'
        self._loaded: str | None = None
        self._state: host_state.HostState | None = None                   # state of the last successful refresh
        self._orphans: list[str] = []
        self._loaded_offload: tuple[str, dict[str, int]] | None = None  # (loaded script, {device: index when loaded})
        self._offload_supported: bool | None = None if conf.network.flow_offload else False       # None: not probed yet
        self._repaired: list[str] = []
        self._known: set[str] = set()       # existing namespaces; creating a namespace in this set again is a repair
        self._routers: dict[str, router.RouterPlumbing] = {}
        self._applied: dict[str, tuple[Any, ...]] = {}  # {id of a network or router: arguments that it was set up with}
        self._leases = leases.Leases(self.directory / 'leases')
        self.limits = limits.Limits(self.run, self.table)
        self.guarantees = guarantees.Guarantees(conf, self.run)
        self.relay = metadata.MetadataRelay(self.run)
        self.switchover = switchover_process.SwitchoverProcess(self.run)

    def start(self) -> None:
        """Check the host's prerequisites and enable forwarding.

        :raises NetworkPlumbingError: the process is not root, or a command or br_netfilter is missing
        """
        if os.geteuid():
            raise exception.NetworkPlumbingError(reason='[network] driver = linux needs root; use driver = fake.')
        missing = [f'{command} (Debian: {package})' for command, package in COMMANDS.items()
                   if not shutil.which(command, path=PATH)]
        if missing:
            raise exception.NetworkPlumbingError(reason='not installed: ' + ', '.join(missing))
        if not os.path.exists('/proc/sys/net/bridge'):
            self.run('modprobe', 'br_netfilter')
        self.run('sh', '-c', 'echo 1 > /proc/sys/net/ipv4/ip_forward')

    def refresh(self, load: Callable[[], host_state.HostState]) -> list[str]:
        """Bring bridges, DHCP, filters and routers in line with ``load()``, a HostState.

        :returns: kinds of objects that had disappeared and were created again
        """
        self._applied.clear()
        return self.follow(load)

    def follow(self, load: Callable[[], host_state.HostState]) -> list[str]:
        """Apply a state without checking unchanged overlays and routers: each check takes a dozen commands.

        :raises NetworkPlumbingError: the filters or the default network failed; the other networks are set up then
        """
        state, self._state = load(), None
        self._repaired.clear()
        served = [network for network in state.networks if network.subnets]
        # load filters first, so that a guest's device is never unfiltered
        self._filter(state)
        self.limits.apply(state.ports, self._tables, self.guarantees.apply(state))
        failed = None
        for network in served:
            error = self._attempt(network.id, self._flat, network,
                                  [port for port in state.ports if port.bridge == network.bridge],
                                  host_state.names_in(state, network.id))
            failed = error if network.is_default and error is not None else failed
        for name in set(self._bridges()) - {network.bridge for network in served}:
            self._remove(name)
        relayed = self._relayed_networks(served)
        if self.relay.configure(state.host, state.metadata_key,
                                *self._relay_target(state if state.overlays or relayed else None)):
            self._applied.clear()                             # a new relay process needs sockets for all networks
        for network in relayed:
            self._apply_isolated(network.id, self.relay.serve_at, network.id, *self._relay_address(network))
        for each in state.overlays:
            self._apply_isolated(each.id, self._overlay, each, state.tunnel, host_state.names_in(state, each.id))
        for trunk in state.trunks:
            self._apply_isolated(trunk.port, self._trunk, trunk)
        for placed in state.routers:
            self._apply_isolated(placed.id, self._router, placed, state.physical_bridges)
        self._remove_obsolete({each.id for each in state.overlays}, {each.id for each in relayed},
                              {each.id for each in state.routers}, {each.bridge for each in state.overlays},
                              {each.port: trunks.bridge(each) for each in state.trunks})
        self.switchover.hand_over_connections(state)
        self.switchover.retain({frames.tunnel_name(each) for each in state.overlays})
        self._apply_offload(state)
        self._state = state
        if failed is not None:
            raise failed
        return list(self._repaired)

    def refilter(self, rules_of_groups: host_state.Rules, members: host_state.Members) -> bool:
        """Apply the last state with these security group rules and members. Return False if there is no last state.

        The kernel gets only the differences, in one transaction.
        """
        if self._state is None or self._loaded is None:
            return False
        state = dataclasses.replace(self._state, rules=rules_of_groups, members=members)
        self._load(self._script(state))
        self._apply_offload(state)
        self._state = state
        return True

    def _apply_isolated(self, ident: str, function: Callable[[Unpack[_Arguments]], object],
                        *arguments: *_Arguments) -> None:
        """Call a function for a network or router if the arguments are new. Log errors, so that others are set up."""
        if self._applied.get(ident) == arguments:
            return
        self._applied.pop(ident, None)
        if self._attempt(ident, function, *arguments) is None:
            self._applied[ident] = arguments

    def _attempt(self, ident: str, function: Callable[[Unpack[_Arguments]], object],
                 *arguments: *_Arguments) -> exception.NetworkPlumbingError | None:
        """Call a function for a network or router. Log and return an error, so that others are set up."""
        try:
            function(*arguments)
        except exception.NetworkPlumbingError as error:
            self.relay.distrust(ident)               # a namespace may have been created before the error
            LOG.error('Cannot set up network or router %s on this host: %s', ident, error)
            return error
        return None

    def _bridges(self) -> list[str]:
        """Return the names of this cloud's flat bridges."""
        others = ('overlays', 'routers', 'leases', 'trunks')
        return [name for name in bridge.managed(self.directory) if name not in others]

    def leases(self, whole: bool) -> list[host_state.Lease]:
        """Return leases that began or ended since the last call.

        :param whole: include all current leases, which may have been renewed
        """
        servers = [self.directory / name for name in self._bridges()] + [
            self.overlays / name for name in bridge.managed(self.overlays)] if whole else []
        return self._leases.read(servers)

    def _namespace_name(self, kind: str, ident: str) -> str:
        return f'{self.conf.network.bridge}-{kind}-{ident}'

    def _flat(self, network: host_state.Network, ports: list[host_state.Port], names: host_state.Names) -> None:
        bridge.ensure(self.run, network)
        server = dhcp.Dnsmasq(self.run, network.bridge, self.directory / network.bridge, self._leases)
        dnsmasq_files.make_directory(server.directory)
        if dhcp.dhcp_subnets(network) or not network.external and any(
                subnet.gateway in self._name_servers(subnet) for subnet in network.subnets):
            server.apply(network, ports, self.conf.network.dhcp_lease_time, self._name_servers, names,
                         self._domain(network))
        else:
            server.stop()

    def _overlay(self, state: host_state.Overlay, tunnel: str, names: host_state.Names) -> None:
        dnsmasq_files.make_directory(self.overlays / state.bridge)
        overlay.ensure(self.run, state, tunnel, self.switchover.switched)
        self.switchover.expect(state)
        name = self._namespace_name('n', state.id)
        space = namespaces.Namespace(self.run, name)
        device = frames.service_name(state)
        server = overlay_dnsmasq.OverlayDnsmasq(
            space.run, device, self.overlays / state.bridge, self._domain(state), self._leases)
        served = [(subnet.dhcp, subnet.cidr) for subnet in state.subnets if subnet.dhcp]
        if not state.mac or not served:
            server.stop()
            space.remove()
            return
        made = space.ensure()
        self._note_created(name, made)
        space.link(device, state.bridge, state.mac, state.mtu)
        space.addresses(device, [f'{address}/{ipaddress.ip_network(cidr).prefixlen}' for address, cidr in served])
        server.serve(state, self.conf.network.dhcp_lease_time, [str(ip) for ip in self.conf.network.dns_servers], names)
        self.relay.serve(space, 'network', state.id, made)

    def _trunk(self, trunk: host_state.Trunk) -> None:
        dnsmasq_files.make_directory(self.trunks / trunks.bridge(trunk))  # so that a later run finds the trunk
        trunks.ensure(self.run, trunk)

    def _router(self, state: host_state.Router, physical_bridges: dict[str, str]) -> None:
        if state.external is not None:
            wired = physical_bridges.get(state.external.bridge, state.external.bridge)
            state = dataclasses.replace(state, external=dataclasses.replace(state.external, bridge=wired))
        name = self._namespace_name('r', state.id)
        plumbing = self._routers.setdefault(state.id, router.RouterPlumbing(
            self.run, name, self.routers / state.id))
        made = plumbing.apply(state)
        self._note_created(name, made)
        self.relay.serve(plumbing.space, 'router', state.id, made)

    def _note_created(self, name: str, made: bool) -> None:
        if made and name in self._known:
            LOG.warning('Namespace %s had disappeared and was created again', name)
            self._repaired.append('namespace')
        self._known.add(name)

    def _remove_obsolete(self, networks: set[str], relayed: set[str], routers: set[str], bridges: set[str],
                         trunk_bridges: dict[str, str]) -> None:
        """Remove objects of this cloud that are no longer needed.

        :param trunk_bridges: {parent port: bridge ``tb…``} of the current trunks
        """
        kept = networks | relayed | routers | trunk_bridges.keys()
        self._applied = {ident: made_from for ident, made_from in self._applied.items() if ident in kept}
        self.relay.retain({('network', ident) for ident in networks | relayed}
                          | {('router', ident) for ident in routers})
        for name in namespaces.managed(self._namespace_name('r', '')):
            ident = name.removeprefix(self._namespace_name('r', ''))
            if ident not in routers:
                router.RouterPlumbing(self.run, name, self.routers / ident).remove()
                self._routers.pop(ident, None)
                self._known.discard(name)
        for name in set(bridge.managed(self.trunks)) - set(trunk_bridges.values()):
            trunks.remove(self.run, name)
            shutil.rmtree(self.trunks / name, ignore_errors=True)
        for name in bridge.managed(self.overlays):
            if name not in bridges:
                self._applied.clear()  # routers may have had devices on this bridge: set up all routers again
                dhcp.Dnsmasq(self.run, 'nd' + name[2:], self.overlays / name).remove()
                overlay.remove(self.run, name)
        for name in namespaces.managed(self._namespace_name('n', '')):
            if name.removeprefix(self._namespace_name('n', '')) not in networks:
                namespaces.Namespace(self.run, name).remove()
                self._known.discard(name)

    def teardown(self) -> None:
        """Remove bridges, DHCP servers and filters."""
        self.relay.stop()
        self.switchover.stop()
        self._remove_obsolete(set(), set(), set(), set(), {})
        for name in self._bridges():
            self._remove(name)
        self.run('nft', '-f', '-', stdin=rules.remove(self.table))
        self.run('nft', '-f', '-', stdin=frames.removal('netdev', self.table), check=False)
        self._loaded_offload = None
        self.limits.forget()
        self.guarantees.forget()
        self._applied.clear()
        shutil.rmtree(self.directory, ignore_errors=True)
        self._loaded = None

    def _remove(self, name: str) -> None:
        LOG.info('Removing bridge %s', name)
        dhcp.Dnsmasq(self.run, name, self.directory / name).remove()
        bridge.remove(self.run, name)

    def _filter(self, state: host_state.HostState) -> None:
        known = {port.device for port in state.ports}
        self._orphans = sorted({device for name in [*self._bridges(), *bridge.managed(self.overlays)]
                                for device in bridge.guests(self.run, name)} - known)
        text = self._script(state)
        if text == self._loaded:
            if self._tables_present():
                return
            LOG.warning('The filters of this host had disappeared and were loaded again')
            self._repaired.append('filters')
            self._loaded = None
        self._load(text)

    def _script(self, state: host_state.HostState) -> str:
        return rules.script(self.table, state, self._metadata_targets(state), self.conf.network.guest_to_host_ports,
                            self._orphans, offload=self._offload_enabled(state))

    def _load(self, text: str) -> None:
        """Load filters: if the loaded filters are known, only the differences from them; if not, all."""
        changes = None if self._loaded is None else rules.changes(self.table, self._loaded, text)
        if changes is not None:
            try:
                if changes:
                    self.run('nft', '-f', '-', stdin=self._offload_removal() + changes)
                self._loaded = text
                return
            except exception.NetworkPlumbingError:                # another program has removed objects of the filters
                self._repaired.append('filters')
        self._loaded = None
        # remove the offload table that an earlier process of this service has loaded
        if not self._offload_supported:
            self.run('nft', '-f', '-', stdin=frames.removal('netdev', self.table), check=False)
        self.run('nft', '-f', '-', stdin=self._offload_removal() + text)
        self._loaded = text

    # ---- flow offload

    def _offload_removal(self) -> str:
        """Return nft commands that remove the offload table.

        They run in one transaction with the new filters, so that no packet bypasses the new filters.
        """
        self._loaded_offload = None
        return frames.removal('netdev', self.table) if self._offload_supported else ''

    def _offload_enabled(self, state: host_state.HostState) -> bool:
        """Return whether flow offload is enabled. The first call probes the host's support."""
        if self._offload_supported is None:
            try:
                self.run('nft', '--check', '-f', '-', stdin=flow_offload.probe(self.table))
                for name in flow_offload.SETTINGS:
                    self.run('sh', '-c', f'echo 1 > /proc/sys/net/netfilter/{name}')
                self._offload_supported = True
            except exception.NetworkPlumbingError as error:
                LOG.warning('Flow offload between guests is not supported on this host: %s', error)
                self._offload_supported = False
        return self._offload_supported and flow_offload.is_possible(state)

    def _apply_offload(self, state: host_state.HostState) -> None:
        """Load flow offload between the existing devices."""
        if not self._offload_enabled(state) or self._loaded is None:
            return
        links: list[runner.Link] = json.loads(self.run('ip', '-json', 'link', 'show') or '[]')
        devices = {link['ifname']: link['ifindex'] for link in links}
        generation = rules.generation(self._loaded)
        if generation is None:
            return
        text = flow_offload.script(self.table, state, devices, generation)
        wanted = text, {name: index for name, index in devices.items() if f'"{name}"' in text}
        if wanted == self._loaded_offload:
            return
        self._loaded_offload = None
        try:
            self.run('nft', '-f', '-', stdin=text)
            self._loaded_offload = wanted
        # a device disappeared, or another program changed it; the next refresh retries
        except exception.NetworkPlumbingError as error:
            LOG.info('Flow offload between guests is inactive until the next refresh: %s', error)

    def _tables(self) -> str:
        return self.run('nft', 'list', 'tables')

    def _tables_present(self) -> bool:
        """Return whether the tables of the families bridge and inet are still loaded."""
        tables = self._tables()
        return all(f'table {family} {self.table}\n' in tables for family in ('bridge', 'inet'))

    def _metadata(self, state: host_state.HostState) -> tuple[str, int] | None:
        if self.conf.network.metadata_host:
            return self.conf.network.metadata_host, self.conf.metadata.port
        for network in state.networks:
            if network.is_default:
                for subnet in network.subnets:
                    if subnet.gateway:
                        return subnet.gateway, self.conf.metadata.port
        return None

    def _relayed_networks(self, served: list[host_state.Network]) -> list[host_state.Network]:
        """Return the flat networks from which the metadata relay accepts requests.

        On a host without an agent, metadata requests of flat networks go directly to the metadata service.
        """
        return [network for network in served if self.conf.network.agent and self.conf.network.metadata_host
                and not network.external and any(subnet.gateway for subnet in network.subnets)]

    def _relay_address(self, network: host_state.Network) -> tuple[str, int]:
        """Return the listening address of the relay for a flat network."""
        return next(subnet.gateway for subnet in network.subnets if subnet.gateway), self.conf.metadata.port

    def _metadata_targets(self, state: host_state.HostState) -> dict[str, tuple[str, int]]:
        """Return {bridge: (address, port)} to which metadata requests of flat networks are redirected."""
        served = [network for network in state.networks if network.subnets]
        if self.conf.network.agent:
            return {network.bridge: self._relay_address(network) for network in self._relayed_networks(served)}
        upstream = self._metadata(state)
        return {network.bridge: upstream for network in served} if upstream else {}

    def _relay_target(self, state: host_state.HostState | None) -> tuple[tuple[str, int] | None, str]:
        """Return the address of the metadata service for the relay, None to stop the relay, and the CA certificate.

        :param state: None if the relay is not used
        """
        upstream = self._metadata(state) if state else None
        try:
            return upstream, self._authority() if upstream else ''
        except exception.NetworkPlumbingError as error:          # the other parts of the network do not need the relay
            LOG.error('The metadata relay is off: %s', error)
            return None, ''

    def _authority(self) -> str:
        """Return the CA certificate of the metadata service as PEM, or '' for plain HTTP.

        :raises NetworkPlumbingError: the file cannot be read, or is too large for a message to the relay
        """
        name = self.conf.network.metadata_ca_file
        try:
            text = pathlib.Path(name).read_text() if name else ''
        except (OSError, UnicodeDecodeError) as error:
            raise exception.NetworkPlumbingError(reason=f'Cannot read [network] metadata_ca_file: {error}')
        if len(json.dumps(text)) > metadata.MAX_AUTHORITY:
            raise exception.NetworkPlumbingError(
                reason=f'[network] metadata_ca_file has more than {metadata.MAX_AUTHORITY >> 10} KiB. Give the CA '
                       'certificate of the metadata service alone, not a bundle.')
        return text

    def _domain(self, network: host_state.Network | host_state.Overlay) -> str:
        return host_state.search_domain(network.domain, self.conf.metadata.dhcp_domain)

    def _name_servers(self, subnet: host_state.Subnet) -> list[str]:
        return subnet.dns or [str(ip) for ip in self.conf.network.dns_servers] or [str(subnet.gateway)]
