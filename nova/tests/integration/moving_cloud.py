"""A cloud whose hosts are those of moving.py, with a nova-compute each: what its users see of real guests that move.

API, conductor and scheduler are in this process, and over a broker the computes, each a process of its own that sees
the files of its host as the libvirt there does. The volumes are files of this process, at an address that is none of
the hosts': they reach them over NBD with TLS. Ports of servers are those of the embedded network; a bridge on each
host takes their taps.
"""
from __future__ import annotations

import collections.abc
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import typing

import yaml

from nova import exception
from nova import states
from nova.db.placement import claims
from nova.rpc import bus
from nova.runtime import certificates
from nova.tests.support import waiting
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.integration import moving
from nova.tests.integration import prepared
from nova.tests.integration import servers
from nova.tests.support import libvirt as base
from nova.volume.exports import daemon as exports

BRIDGE = 'br-moves'
DOWN_S = 6
EVACUATE = '2.68'                        # later ones leave the server stopped
OVER = ('completed', 'confirmed', 'reverted', 'failed', 'error', 'cancelled')
CONFIG = '''
[DEFAULT]
transport_url = {url}
state_path = {state}
host = {host}
my_ip = 127.0.0.1
compute_driver = libvirt
report_interval = 1
service_down_time = {down}
graceful_shutdown_timeout = 5
shutdown_timeout = 1
cpu_allocation_ratio = 64
ram_allocation_ratio = 4
[messages]
signatures = accept
[network]
driver = fake
bridge = {bridge}
[image]
backend = glance
[glance]
endpoint_override = {cloud}/image
auth_type = password
auth_url = {auth[auth_url]}
username = {auth[username]}
password = {auth[password]}
project_name = {auth[project_name]}
user_domain_name = Default
project_domain_name = Default
[libvirt]
virt_type = qemu
connection_uri = {uri}
live_migration_uri = {migration_uri}
wait_soft_reboot_seconds = 1
live_migration_inbound_addr = {address}
[vnc]
server_listen = {address}
'''
Server = dict[str, typing.Any]


class Cloud(cloud_fixture.Cloud):
    """Without a host of its own."""

    def _compose(self) -> None:
        super()._compose()
        self.services = [each for each in self.services if each.binary != 'nova-compute']


class Fleet(moving.Hosts):
    """The hosts, their computes, and the cloud above them.

    :ivar computes: {host: its nova-compute, while that runs}
    """

    cloud: Cloud
    url: str

    def begin(self, stack: contextlib.ExitStack) -> None:
        broker = servers.virtual_host()
        self.url, self.computes, self.places = broker.url, {}, {}
        self.cloud = Cloud(self.directory / 'cloud', network__bridge=BRIDGE, service_down_time=DOWN_S,
                           conductor__reconcile_interval=2, conductor__task_deadline=15, **{
                               'my_ip': self.cluster.settings.ADDRESS, 'messages__signatures': 'accept',
                               'volume__export_tls_dir': str(self.certificates()), **self.options})
        bus.register_options(self.cloud.conf)
        self.cloud.conf.set_override('transport_url', broker.url)
        stack.callback(self.end_exports)     # they outlive the cloud
        stack.callback(self.cloud.stop, 5)
        self.cloud.start()
        stack.callback(self.end)
        for name in self.names:
            self.inside(name, 'ip', 'link', 'add', BRIDGE, 'type', 'bridge')
            self.start(name)
        self.admin, self.user = self.cloud.admin('2.95'), self.cloud.client(version='2.95')
        self.all_up()
        for ident, ram in (('small', 96), ('large', 128)):
            made = self.admin.post('/flavors', {'flavor': {'name': ident, 'id': ident, 'vcpus': 1, 'ram': ram,
                                                           'disk': 1}}, version='2.1')
            assert made.status_code == 200, made.text
        self.image = self.admin.upload_image((base.GUEST / 'guest.qcow2').read_bytes(), 'guest', disk_format='qcow2',
                                             visibility='public')

    # ---- volumes ----

    def certificates(self) -> pathlib.Path:
        """The directory of what exports volumes; the authority is that of the hosts."""
        authority = certificates.Authority(self.directory / 'tls')
        pair, directory = authority.pair('volumes', [self.cluster.settings.ADDRESS]), self.directory / 'volumes-tls'
        directory.mkdir(mode=0o700)
        for source, name in ((authority.trusted, 'ca-cert.pem'), (pair.certificate, 'server-cert.pem'),
                             (pair.key, 'server-key.pem')):
            shutil.copyfile(source, directory / name)
        return directory

    def exporters(self) -> list[exports.Daemon]:
        place = self.directory / 'cloud' / 'volumes' / 'exports'
        found = [exports.Daemon(str(path.parent)) for path in place.glob(f'*/{exports.RECORD}')]
        return [daemon for daemon in found if daemon.is_alive()]

    def exported(self) -> dict[str, int]:
        """{host: number of volumes that it is let reach}"""
        found = {}
        for daemon in self.exporters():
            with contextlib.suppress(exception.InvalidVolume):       # it has just ended
                found[(daemon.record() or {}).get('host', '')] = len(daemon.names())
        return {host: number for host, number in found.items() if number}

    def end_exports(self) -> None:
        for daemon in self.exporters():
            daemon.kill()

    def stored(self, volume: str, size: int, offset: int = 0) -> bytes:
        """What the file of a volume has."""
        with (self.directory / 'cloud' / 'volumes' / volume).open('rb') as content:
            content.seek(offset)
            return content.read(size)

    # ---- computes ----

    def start(self, name: str, extra: str = '') -> None:
        """Start the nova-compute of a host.

        :param extra: lines at the end of its configuration
        """
        place = self.places[name] = self.directory / (self.share or name)
        place.mkdir(mode=0o711, exist_ok=True)
        # an administrator's, as the installation guide says: it removes unfinished images of any project
        account = yaml.safe_load(self.cloud.clouds_yaml.read_text())['clouds']['nova-admin']['auth']
        file = self.directory / f'{name}.conf'
        file.write_text(CONFIG.format(
            url=self.url, state=place, host=name, address=self.address(name), bridge=BRIDGE, cloud=self.cloud.url,
            auth=account, uri=self.cluster.hosts.uri(name), migration_uri=self.cluster.hosts.migration_uri(name),
            down=DOWN_S) + extra)
        with open(self.directory / f'{name}.log', 'ab') as log:
            self.computes[name] = subprocess.Popen(
                [str(word) for word in self.cluster.hosts.in_namespace(name, *self.command(file))],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment())

    def command(self, file: pathlib.Path) -> list[str | pathlib.Path]:
        """What runs a nova-compute with a configuration file."""
        return [prepared.BIN / 'nova-compute', '--config-file', file]

    def environment(self) -> dict[str, str]:
        return prepared.environment()

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """End the nova-compute of a host."""
        process = self.computes.pop(name)
        process.send_signal(number)
        process.wait(30)

    def end(self) -> None:
        for name in list(self.computes):
            self.kill(name)

    def restore(self) -> None:
        """Everything runs again, whatever a test has left, and there are no servers."""
        for name in self.names:
            self.parts[name].start()
            if name not in self.computes:
                self.start(name)
        self.all_up()
        self.clear()

    def up(self) -> set[str]:
        return self._hosts_with('state', 'up')

    def enabled(self) -> set[str]:
        """Hosts that take servers."""
        return self._hosts_with('status', 'enabled')

    def _hosts_with(self, field: str, value: str) -> set[str]:
        found = self.admin.get('/os-services?binary=nova-compute').json()['services']
        return {each['host'] for each in found if each[field] == value}

    def all_up(self) -> None:
        waiting.wait_for(lambda: self.up() == set(self.names), 120, 'the computes to be up')

    def switch_off(self, name: str) -> None:
        """As when the power of a host fails: nothing runs there, its disks stay."""
        if name in self.computes:
            self.kill(name)
        self.parts[name].kill()
        self.cluster.hosts.switch_off(self.namespace(name))
        waiting.wait_for(lambda: name not in self.up(), 60, f'{name} to be down')

    def switch_on(self, name: str) -> None:
        run = self.cluster.hosts.directory(name) / 'run'
        for path in sorted(run.rglob('*.pid')) + sorted(run.rglob('*.xml')):
            path.unlink()                # what is in memory alone on a machine
        self.parts[name].start()
        self.start(name)
        self.all_up()

    @contextlib.contextmanager
    def slow(self, name: str, rate: str = '30mbit') -> collections.abc.Iterator[None]:
        """The host sends so slowly that there is a middle of a copy."""
        words = ['tc', '-n', self.namespace(name), 'qdisc']
        subprocess.run([*words, 'add', 'dev', 'eth0', 'root', 'tbf', 'rate', rate, 'burst', '64kb', 'latency', '50ms'],
                       check=True)
        try:
            yield
        finally:
            subprocess.run([*words, 'del', 'dev', 'eth0', 'root'], check=True)

    # ---- servers ----

    def boot(self, name: str, flavor: str = 'small', image: str | None = None, booted: bool = True,
             **fields: typing.Any) -> Server:
        """A server that runs on a host, when its guest has booted."""
        made = self.admin.boot(image or self.image, flavor=flavor, host=name, networks=fields.pop('networks', 'auto'),
                               version='2.95', **fields)
        found = self.user_server(made['id'])
        assert self.place(found['id']) == name
        if booted:
            self.booted_on(name, found['id'])
        return found

    def user_server(self, ident: str, status: str = 'ACTIVE') -> Server:
        return self.admin.wait_for(ident, status, timeout=base.BOOT_SECONDS)

    def place(self, ident: str) -> str:
        return self.admin.get(f'/servers/{ident}').json()['server']['OS-EXT-SRV-ATTR:host']

    def act(self, ident: str, name: str, body: typing.Any = None, version: str | None = None, code: int = 202) -> None:
        answer = self.admin.post(f'/servers/{ident}/action', {name: body}, version=version)
        assert answer.status_code == code, answer.text

    def migrate_live(self, ident: str, host: str | None = None, block: typing.Any = 'auto') -> None:
        self.act(ident, 'os-migrateLive', {'host': host, 'block_migration': block}, '2.79')

    def evacuate(self, ident: str, host: str, **more: str) -> None:
        """Of a host that is off; on a busy machine a heartbeat of it may be read late.

        :param more: of the request
        """
        def accepted() -> bool:
            answer = self.admin.post(f'/servers/{ident}/action', {'evacuate': {'host': host, **more}},
                                     version=EVACUATE)
            assert answer.status_code == 200 or 'still in use' in answer.text, answer.text
            return answer.status_code == 200
        waiting.wait_for(accepted, 60, 'the evacuation to be accepted', pause_s=0.5)
        self.user_server(ident)

    def migrations(self, ident: str) -> list[Server]:
        """The newest first."""
        return self.admin.get(f'/os-migrations?instance_uuid={ident}', version='2.59').json()['migrations']

    def migrated(self, ident: str, status: str = 'completed', state: str = 'ACTIVE') -> Server:
        """The server when its newest migration has ended so."""
        def over() -> bool:
            return self.migrations(ident)[0]['status'] in (*OVER, status)
        waiting.wait_for(over, base.BOOT_SECONDS, f'migration of {ident} to be {status}')
        last = self.migrations(ident)[0]
        assert last['status'] == status, (
            last, self.admin.get(f'/servers/{ident}').json()['server'].get('fault'), self.logs())
        return self.user_server(ident, state)

    def running(self, ident: str) -> int:
        """The id of the server's live migration, once it copies."""
        def copying() -> int | None:
            last = self.migrations(ident)[0]
            return last['id'] if last['status'] == 'running' else None
        return typing.cast(int, waiting.wait_for(copying, 60, 'the guest to be copied'))

    def logs(self) -> str:
        return ''.join(f'--- {name}\n{(self.directory / (name + ".log")).read_text(errors="replace")[-3000:]}'
                       for name in self.names)

    def delete(self, ident: str) -> None:
        self.admin.delete(f'/servers/{ident}')
        self.admin.wait_for(ident, 'DELETED')

    # ---- guests ----

    def console_file(self, name: str, ident: str) -> pathlib.Path:
        return self.places[name] / 'instances' / ident / 'console.log'

    def console(self, name: str, ident: str) -> bytes:
        with contextlib.suppress(FileNotFoundError):
            return self.console_file(name, ident).read_bytes()
        return b''

    def booted_on(self, name: str, ident: str) -> None:
        waiting.wait_for(lambda: base.PROMPT in self.console(name, ident), base.BOOT_SECONDS, 'the guest to boot')

    def tell(self, name: str, ident: str, line: str, answer: str) -> None:
        """Type a line at the guest's serial console and wait for what it prints; it is typed until it is heard."""
        path = self.virsh(name, 'ttyconsole', ident).strip()

        def answered() -> bool:
            fd = os.open(path, os.O_RDWR | os.O_NOCTTY)
            base.tty.setraw(fd)
            os.write(fd, line.encode() + b'\n')
            with contextlib.suppress(AssertionError):
                waiting.wait_for(lambda: answer.encode() in self.console(name, ident), 2, 'the answer')
            os.close(fd)
            return answer.encode() in self.console(name, ident)
        try:
            waiting.wait_for(answered, 60, f'the guest to answer {line!r}')
        except AssertionError as error:
            state = self.virsh(name, 'domstate', ident, '--reason').strip()
            raise AssertionError(f'{error}; the guest is {state}, its console ends with '
                                 f'{self.console(name, ident)[-500:]!r}') from None

    def keep(self, name: str, ident: str) -> None:
        """Give the guest something to remember: a word in its memory, and one on its disk."""
        self.tell(name, ident, 'W=in-memory; echo on-disk >/root/kept; sync; echo kept-$((40+2))', 'kept-42')

    def remembers(self, name: str, ident: str, memory: bool = True) -> None:
        """Whether it has them still; without ``memory`` it was started anew meanwhile."""
        line, answer = 'echo =$W=$(cat /root/kept)=', '=in-memory=on-disk='
        self.tell(name, ident, line, answer if memory else '==on-disk=')

    # ---- what is left ----

    def left_of(self, ident: str, home: str | None = None, kept: collections.abc.Collection[str] = ()) -> list[str]:
        """What hosts other than ``home`` have of a server.

        :param kept: hosts that keep files of it for a revert
        """
        found = []
        for name in self.names:
            if name == home:
                continue
            if ident in self.cluster.hosts.guests(name):
                found.append(f'{name} has a guest')
            if self.virsh(name, 'pool-list', '--all').count('nova-'):
                found.append(f'{name} has a pool of libvirt')
            places = [self.cluster.hosts.directory(name) / 'lib' / 'swtpm']
            if not self.share and name not in kept:
                places.append(self.places[name] / 'instances')
            found += [str(path) for place in places for path in place.glob(f'{ident}*')]
            links = subprocess.check_output(['ip', '-n', self.namespace(name), '-brief', 'link'], text=True)
            ports = self.ports(ident)
            found += [f'{name} has tap {port[:11]}' for port in ports if 'tap' + port[:11] in links]
        if self.share and home is None:
            found += [str(path) for path in (self.directory / self.share / 'instances').glob(f'{ident}*')]
        return found

    def ports(self, ident: str) -> list[str]:
        found = self.admin.get(f'/network/v2.0/ports?device_id={ident}').json()['ports']
        return [port['id'] for port in found]

    def settled_at(self, name: str, ident: str, state: int = states.RUNNING,
                   kept: collections.abc.Collection[str] = ()) -> None:
        """The server is on this host: its guest is there alone, nothing of it is elsewhere, and it is counted once."""
        assert self.place(ident) == name
        there = {host: guests[ident] for host, guests in self.guests().items() if ident in guests}
        assert there == {name: state}
        # CVE-2020-17376: what stays names the devices that the guest has, or its next start opens another's
        assert self.sources(name, ident) == self.sources(name, ident, '--inactive')

        def clean() -> None:
            assert self.left_of(ident, name, kept) == []
            assert self.cloud.cell_db.run(claims.audit) == []
            held = self.admin.get(f'/network/v2.0/ports?device_id={ident}').json()['ports']
            assert {port['binding:host_id'] for port in held} <= {name}
        waiting.settled(clean, 20)

    def clear(self) -> None:
        """No server is left, and nothing of one."""
        found = [each['id'] for each in self.admin.get('/servers?all_tenants=1').json()['servers']]
        for ident in found:
            self.delete(ident)

        def clean() -> None:
            for ident in found:
                assert self.left_of(ident) == []
        waiting.settled(clean, 20)


@contextlib.contextmanager
def fleet(count: int = 2, kind: type[Fleet] = Fleet, **options: typing.Any) -> collections.abc.Iterator[Fleet]:
    """A started Fleet. ``share``: as of moving.hosts; other options are the cloud's."""
    with moving.hosts(count, drivers=False, kind=kind, **options) as made, contextlib.ExitStack() as stack:
        try:
            made.begin(stack)
            yield typing.cast(Fleet, made)
        except BaseException:
            print(made.logs() if hasattr(made, 'places') else '')
            raise
