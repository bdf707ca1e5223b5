"""Hosts with a libvirt each, in namespaces of their own on one machine, between which guests move; see ``hosts``."""
from __future__ import annotations

import collections.abc
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import typing
from concurrent import futures
from xml.etree import ElementTree as etree

import pytest

from nova import conf as configuration
from nova import states
from nova.tests.support import libvirt as base
from nova.virt import driver as contract
from nova.virt.libvirt import driver as libvirt_driver

TOOLS = pathlib.Path(__file__).resolve().parents[3] / 'tools'
needed = pytest.mark.skipif(os.geteuid() != 0 or not (base.GUEST / 'guest.qcow2').exists(),
                            reason='needs root, and the guest image that NOVA_TEST_GUEST_DIR names')
DRIVE = {'openstack/latest/meta_data.json': b'{"hostname": "mover"}'}


class Hosts:
    """Started hosts.

    :ivar drivers: {name: LibvirtDriver}, and ``images`` that all of them have
    :ivar parts: {name of a host: its libvirtd, with start, stop, kill}
    """

    def __init__(self, directory: pathlib.Path, cluster: typing.Any, names: list[str], options: dict) -> None:
        self.share = options.pop('share', None)
        self.directory, self.cluster, self.names, self.options = directory, cluster, names, options
        self.images, self.drivers, self.parts = base.Images(), {}, {}

    def address(self, name: str) -> str:
        return self.cluster.settings.compute_address(int(name.removeprefix('compute')))

    def options_of(self, name: str) -> dict:
        """The options of a host."""
        return {'state_path': str(self.directory / (self.share or name)), 'my_ip': self.address(name),
                'libvirt__connection_uri': self.cluster.hosts.uri(name), 'libvirt__wait_soft_reboot_seconds': 2,
                'libvirt__live_migration_uri': self.cluster.hosts.migration_uri(name),
                'libvirt__live_migration_with_native_tls': True, **self.options}

    def make_driver(self, name: str, **options: typing.Any) -> libvirt_driver.LibvirtDriver:
        """The driver of a host, as after a restart when there is one; its disks lie where all do that share them."""
        conf = configuration.new(files=[], **{**self.options_of(name), **options})
        made = libvirt_driver.LibvirtDriver(conf, name, self.images, base.inspect, self.helper_of(name, conf))
        made.init_host()
        self.drivers[name] = made
        return made

    def helper_of(self, name: str, conf: typing.Any) -> typing.Any:
        """The privileged part of a host's driver; None: the driver does its steps itself."""
        return None

    def virsh(self, name: str, *words: str) -> str:
        return self.cluster.hosts.virsh(name, *words)

    def guests(self) -> dict[str, dict[str, int]]:
        """{host: {uuid: power state}} as the hypervisors have it."""
        return {name: self.cluster.hosts.guests(name) for name in self.names}

    def namespace(self, name: str) -> str:
        return self.cluster.settings.NAMESPACES + name

    def sources(self, name: str, uuid: str, *options: str) -> dict[str, dict[str, str]]:
        """{target: where its blocks are} of a guest's disks, as the libvirt of a host has them.

        :param options: of virsh dumpxml; --inactive: of the definition that stays
        """
        found = {}
        for disk in etree.fromstring(self.virsh(name, 'dumpxml', *options, uuid)).findall('./devices/disk'):
            source, target = disk.find('source'), disk.find('target')
            assert target is not None
            found[target.get('dev', '')] = {key: value for key, value in (
                {} if source is None else source.attrib).items() if key != 'index'}
        return found

    def inside(self, name: str, *command: str) -> None:
        """Run a command in the network namespace of a host."""
        subprocess.run(['ip', 'netns', 'exec', self.namespace(name), *command], check=True)

    def files(self, name: str, uuid: str) -> list[str]:
        """Names of what a host has of a guest."""
        place = pathlib.Path(self.drivers[name].storage.path(uuid))
        return sorted(path.name for path in place.iterdir()) if place.exists() else []

    def spawn(self, name: str, vifs: typing.Sequence = (), **values: typing.Any) -> typing.Any:
        """An instance with a guest that runs on a host."""
        instance = base.make_instance(**{'memory_mb': 96, **values})
        instance.host = name
        image = self.images.show(None, base.DISK_ID)
        self.drivers[name].spawn(None, instance, contract.SpawnRequest(image=image, network_info=list(vifs),
                                                                     config_drive=DRIVE))
        return instance

    def booted(self, name: str, instance: typing.Any) -> None:
        base.wait_for(lambda: base.PROMPT in self.drivers[name].console_output(instance), base.BOOT_SECONDS,
                      'the guest to boot')

    def type(self, name: str, instance: typing.Any, line: str, answer: str) -> None:
        """Type a line at the guest's serial console and wait for what it prints; it is typed until it is heard."""
        path = self.virsh(name, 'ttyconsole', instance.uuid).strip()

        def answered() -> bool:
            if answer.encode() in self.drivers[name].console_output(instance):
                return True
            fd = os.open(path, os.O_RDWR | os.O_NOCTTY)
            base.tty.setraw(fd)
            os.write(fd, line.encode() + b'\n')
            threading.Event().wait(1.5)                  # QEMU looks once a second whether somebody has opened it
            os.close(fd)
            return answer.encode() in self.drivers[name].console_output(instance)
        base.wait_for(answered, 60, f'the guest to answer {line!r}')

    def clear(self) -> None:
        """No guest is left, and nothing of one."""
        for made in self.drivers.values():
            for uuid in [*made.guests(), *(guest.uuid for guest in made.storage.records()),
                         *made.features[contract.Resize].resize_backups()]:
                made.destroy(None, base.make_instance(uuid=uuid), [])
                shutil.rmtree(made.storage.path(uuid), ignore_errors=True)

    # ---- moves as the compute service makes them ----

    def prepare(self, source: str, dest: str, instance: typing.Any, vifs: typing.Sequence = (),
                block: bool | None = None) -> dict:
        """What the two drivers find out before a live migration."""
        facts = self.live(dest).check_destination(instance, block, False)
        facts = self.live(source).check_source(instance, facts)
        return self.live(dest).pre_live_migration(None, instance, list(vifs), [], facts)

    def live(self, name: str) -> contract.LiveMigration:
        """The feature LiveMigration of the driver of a host."""
        return self.drivers[name].features[contract.LiveMigration]

    def migrate(self, source: str, dest: str, instance: typing.Any, progress: typing.Callable = lambda values: None,
                vifs: typing.Sequence = (), **values: typing.Any) -> dict:
        """The whole of a live migration, with the rollback of one that fails."""
        facts = self.prepare(source, dest, instance, vifs, **values)
        try:
            self.live(source).live_migrate(None, instance, dest, facts, progress)
        except Exception:
            self.live(dest).rollback_live_migration(None, instance, [], facts)
            self.drivers[dest].destroy(None, instance, [])
            raise
        self.live(source).post_live_migration_at_source(None, instance, list(vifs), facts)
        self.live(dest).post_live_migration_at_destination(None, instance, list(vifs))
        instance.host = dest
        return facts

    def only_at(self, name: str, instance: typing.Any, state: int = states.RUNNING) -> None:
        """The guest is on one host, and no other has anything of it."""
        found = {host: guests[instance.uuid] for host, guests in self.guests().items() if instance.uuid in guests}
        assert found == {name: state}
        for other in self.names:
            if other != name and self.drivers[other].storage.directory != self.drivers[name].storage.directory:
                assert self.files(other, instance.uuid) == []


@contextlib.contextmanager
def place(prefix: str) -> collections.abc.Iterator[pathlib.Path]:
    """A directory for a fleet of tools/cluster, whose modules may be imported in the block.

    No other fleet of the tests has its number, by which addresses and names are chosen: a socket stands for that.
    """
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        patch.syspath_prepend(str(TOOLS))
        for name in _modules():
            patch.delitem(sys.modules, name)             # its state directory is chosen at its import
        while True:
            directory = pathlib.Path(tempfile.mkdtemp(prefix=prefix, dir='/var/tmp'))
            patch.setenv('NOVA_CLUSTER_DIR', str(directory))
            import cluster.settings
            mark = stack.enter_context(socket.socket(socket.AF_UNIX))
            try:
                mark.bind(f'\0nova-test-fleet-{cluster.settings.NUMBER}')
                break
            except OSError:
                directory.rmdir()
                _forget()
        directory.chmod(0o711)
        try:
            yield directory
        finally:
            shutil.rmtree(directory)
            _forget()


def _forget() -> None:
    for name in _modules():
        del sys.modules[name]


def _modules() -> list[str]:
    return [name for name in sys.modules if name.partition('.')[0] == 'cluster']


@contextlib.contextmanager
def hosts(count: int = 2, prepare: typing.Callable | None = None, drivers: bool = True, kind: type | None = None,
          **options: typing.Any) -> collections.abc.Iterator[Hosts]:
    """So many hosts with a driver each. ``share``: name of a directory that they have in common.

    :param prepare: called with Hosts before a libvirt starts
    :param drivers: False: the hosts have no driver in this process
    :param kind: of Hosts
    """
    with place('nova-moves-') as directory:
        import cluster.hosts
        import cluster.parts
        import cluster.prepare
        import cluster.settings
        fleet = cluster.settings.save('mariadb', count, libvirt=count)
        made = (kind or Hosts)(directory, cluster, [f'compute{number}' for number in range(1, count + 1)], options)
        try:
            cluster.prepare.network(fleet)
            for name in made.names:
                cluster.hosts.prepare(name)
            if prepare is not None:
                prepare(made)
            made.parts = {part.name.removeprefix('libvirt-'): part for part in cluster.parts.nova(fleet)
                          if part.name.startswith('libvirt-')}
            with futures.ThreadPoolExecutor() as pool:
                assert all(pool.map(lambda part: part.start(), made.parts.values()))
            for name in made.names if drivers else ():
                made.make_driver(name)
            yield made
        finally:
            for each in made.drivers.values():
                each.stop()
            for part in made.parts.values():
                part.stop()
            cluster.prepare.remove_network()
