"""The host's part of the network: bridges, DHCP and filters with iproute2, dnsmasq and nftables. Needs root.

What runs on the host outlives the service: bridges, dnsmasq and the kernel's filters go on while it
restarts, and
``refresh`` changes only what differs.
"""
from __future__ import annotations

import logging
import os
import pathlib
import shutil
from typing import Any

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.network.linux import bridge
from nova.network.linux import dhcp
from nova.network.linux import rules
from nova.network.linux import runner

LOG = logging.getLogger(__name__)

COMMANDS = {'ip': 'iproute2', 'nft': 'nftables', 'dnsmasq': 'dnsmasq-base'}
PATH = '/usr/sbin:/usr/bin:/sbin:/bin'
# Below /run: dnsmasq gives up root and could not read below a private state directory; nothing here is needed
# after a reboot.
RUN_DIRECTORY = '/run/nova-network'


class LinuxDriver:
    """FlatDHCP on this host.

    :param conf: the configuration
    :param run: a Runner
    """

    def __init__(self, conf: ConfigOpts, run: Any = None) -> None:
        self.conf, self.run = conf, run or runner.Runner()
        self.table = rules.table_name(conf.network.bridge)
        self.directory = pathlib.Path(RUN_DIRECTORY) / conf.network.bridge
        self._loaded: str | None = None

    def start(self) -> None:
        """Check what the host must have and switch on forwarding.

        :raises NetworkPlumbingError: not root, a command or br_netfilter is missing
        """
        if os.geteuid():
            raise exception.NetworkPlumbingError(
                reason='[network] driver = linux needs root; use driver = fake.'
            )
        missing = [f'{command} (Debian: {package})' for command, package in COMMANDS.items()
                   if not shutil.which(command, path=PATH)]
        if missing:
            raise exception.NetworkPlumbingError(reason='not installed: ' + ', '.join(missing))
        if not os.path.exists('/proc/sys/net/bridge'):
            self.run('modprobe', 'br_netfilter')
        self.run('sh', '-c', 'echo 1 > /proc/sys/net/ipv4/ip_forward')

    def refresh(self, load: Any) -> None:
        """Make bridges, DHCP and filters as ``load()``, a HostState, says."""
        state = load()
        served = [network for network in state.networks if network.subnets]
        # filters first: a guest's device never stands without them
        self._filter(state)
        for network in served:
            bridge.ensure(self.run, network)
            server = dhcp.Dhcp(self.run, network.bridge, self.directory / network.bridge)
            dhcp.make_directory(server.directory)
            if dhcp.served(network):
                server.apply(network, [port for port in state.ports if port.bridge == network.bridge],
                             self.conf.network.dhcp_lease_time, self._name_servers)
            else:
                server.stop()
        for name in set(bridge.ours(self.directory)) - {network.bridge for network in served}:
            self._remove(name)

    def teardown(self) -> None:
        """Remove bridges, DHCP servers and filters."""
        for name in bridge.ours(self.directory):
            self._remove(name)
        self.run('nft', '-f', '-', stdin=rules.remove(self.table))
        shutil.rmtree(self.directory, ignore_errors=True)
        self._loaded = None

    def _remove(self, name: str) -> None:
        LOG.info('Removing bridge %s', name)
        dhcp.Dhcp(self.run, name, self.directory / name).remove()
        bridge.remove(self.run, name)

    def _filter(self, state: Any) -> None:
        known = {port.device for port in state.ports}
        strays = sorted(
            {device for name in bridge.ours(self.directory) for device in bridge.guests(self.run, name)}
            - known
        )
        text = rules.script(
            self.table, state, self._metadata(state), self.conf.network.guest_to_host_ports, strays
        )
        if text == self._loaded and self._present():
            return
        self.run('nft', '-f', '-', stdin=text)
        self._loaded = text

    def _present(self) -> Any:
        """Whether both tables are still loaded."""
        tables = self.run('nft', 'list', 'tables')
        return all(f'table {family} {self.table}\n' in tables for family in ('bridge', 'inet'))

    def _metadata(self, state: Any) -> Any:
        if self.conf.network.metadata_host:
            return self.conf.network.metadata_host, self.conf.metadata.port
        for network in state.networks:
            if network.is_default:
                for subnet in network.subnets:
                    if subnet.gateway:
                        return subnet.gateway, self.conf.metadata.port
        return None

    def _name_servers(self, subnet: Any) -> Any:
        return subnet.dns or [str(ip) for ip in self.conf.network.dns_servers] or [subnet.gateway]
