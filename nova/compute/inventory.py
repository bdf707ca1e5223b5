"""Inventory of a compute host: the driver's resources, traits, metrics and failed builds of its nodes.

Traits come from the hypervisor and from YAML files of the operator. The files have the format of
https://docs.openstack.org/nova/latest/admin/managing-resource-providers.html. Only traits are supported; options
set the capacities. ::

    meta:
      schema_version: '1.0'
    providers:
      - identification:
          name: host1              # or uuid: $COMPUTE_NODE, the node that reads it
        traits:
          additional:
            - CUSTOM_FAST_SSD
"""
import contextlib
import dataclasses
import logging
import math
import pathlib
import threading
import time
import typing

import yaml

from nova import context
from nova import exception
from nova import utils
from nova.compute.host import Host
from nova.hardware import pci_spec
from nova.objects import pci
from nova.virt import driver as virt
from nova.virt import monitors
from nova.virt import traits

LOG = logging.getLogger(__name__)

REPORT_INTERVAL_S = 600         # seconds between two reports of unchanged nodes
THIS = '$COMPUTE_NODE'       # in a traits file: all nodes of the host that reads the file


class Inventory:
    """Reports the nodes of this host to a conductor.

    :raises InvalidOption: an option or a file is invalid
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._pci_specs = pci_spec.configured(pci_spec.device_specs, host.conf.pci.device_spec)
        self._given_traits = given_traits(host.conf.compute.provider_config_location)
        self._monitor = monitors.CpuMonitor() if monitors.check(host.conf.compute_monitors) else None
        self._failed_builds, self._builds_lock = 0, threading.Lock()
        self.forget_report()

    def forget_report(self) -> None:
        """Forget the last report, because the conductor has lost it. The next check sends a new report."""
        self._reported: list[dict[str, typing.Any]] | None = None
        self._reported_at = float('-inf')

    def report(self) -> None:
        """Report the nodes of this host.

        :raises Unavailable: no conductor answers
        """
        nodes = self._nodes()
        self._host.conductor.report_nodes(context.admin_context(), host=self._host.name, nodes=nodes)
        self._reported, self._reported_at = _compared(nodes), time.monotonic()

    def report_changes(self) -> None:
        """Report the nodes if they differ from the last report or the report is old."""
        if (time.monotonic() - self._reported_at > REPORT_INTERVAL_S
                or _compared(self._nodes()) != self._reported):
            self.report()

    def count_build(self, failed: bool) -> None:
        """Count successive failed builds, and immediately report a changed number to the schedulers.

        A successful build resets the number.
        """
        with self._builds_lock:
            before = self._failed_builds
            self._failed_builds = before + 1 if failed else 0
        if failed or before:
            # after an error, the next periodic report contains the number
            with contextlib.suppress(exception.Unavailable, exception.VirtError):
                self.report()

    def _nodes(self) -> list[dict[str, typing.Any]]:
        """Return the values for the compute_nodes rows of this host."""
        conf, driver = self._host.conf, self._host.driver
        locality = {'network_locality': conf.network_locality} if conf.network_locality else {}
        return [
            {**dataclasses.asdict(node),
             'traits': self._traits(node), 'metrics': self._metrics(), 'failed_builds': self._failed_builds,
             'vcpus': max(0, node.vcpus - conf.reserved_host_cpus),
             'reserved_memory_mb': conf.reserved_host_memory_mb,
             'reserved_disk_gb': math.ceil(conf.reserved_host_disk_mb / 1024),
             'cpu_allocation_ratio': conf.cpu_allocation_ratio,
             'ram_allocation_ratio': conf.ram_allocation_ratio,
             'disk_allocation_ratio': conf.disk_allocation_ratio,
             'pci_devices': pci.dump(pci_spec.admitted(self._pci_specs, node.pci_devices)),
             'capabilities': {**driver.capabilities(), **locality}}
            for node in driver.resources()]

    def _traits(self, node: virt.NodeResources) -> list[str]:
        driver = self._host.driver
        return sorted({*traits.of(driver.cpu_flags(node), driver.capabilities()), *driver.guest_traits(),
                       *node.traits,
                       *self._given_traits.get(node.node, ()), *self._given_traits.get(THIS, ())})

    def _metrics(self) -> list[dict[str, typing.Any]] | None:
        if self._monitor is None:
            return None
        try:
            return self._monitor.metrics(self._host.driver.host_cpu_stats(),
                                         utils.utcnow().isoformat(timespec='seconds'))
        except (OSError, ValueError, exception.VirtError) as error:
            LOG.warning('Cannot measure the CPU usage: %s', error)
            return None


def _compared(nodes: list[dict[str, typing.Any]]) -> list[dict[str, typing.Any]]:
    """Return the nodes without the uptime, because its changes need no report."""
    return [{name: value for name, value in node.items() if name != 'uptime'} for node in nodes]


def given_traits(directory: str) -> dict[str, frozenset[str]]:
    """Return {node name, or THIS: traits} of the files in a directory; {} if the directory is missing.

    :raises InvalidOption: a file is malformed; the message names the file
    """
    found: dict[str, frozenset[str]] = {}
    folder = pathlib.Path(directory)
    for path in sorted([*folder.glob('*.yaml'), *folder.glob('*.yml')]) if directory else ():
        try:
            content = yaml.safe_load(path.read_text())
            if str(content['meta']['schema_version']) != '1.0':
                raise ValueError("meta: schema_version is not '1.0'")
            for provider in content.get('providers') or ():
                name, names = _provider(provider)
                found[name] = found.get(name, frozenset()) | names
        except (OSError, yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise exception.InvalidOption(
                f'[compute] provider_config_location: {path}: {type(error).__name__}: {error}') from error
    return found


def _provider(provider: dict[str, typing.Any]) -> tuple[str, frozenset[str]]:
    unknown = provider.keys() - {'identification', 'traits'}
    if unknown:
        raise ValueError(f'{", ".join(sorted(unknown))} of a provider cannot be set here')
    node = provider['identification']
    if set(node) not in ({'name'}, {'uuid'}) or node.get('uuid', THIS) != THIS:
        raise ValueError(f'identification must be either name, or uuid: {THIS}')
    names = (provider.get('traits') or {}).get('additional') or []
    for name in names:
        if not isinstance(name, str) or not traits.NAME.fullmatch(name):
            raise ValueError(f'{name!r} is not a valid trait name: use only capital letters, digits and _')
    return node.get('name') or THIS, frozenset(names)
