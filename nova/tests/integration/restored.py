"""Restored databases: a backup, then moves, deletions, creations and attachments, then the backup comes back.

Guests are real ones of two hosts with a libvirt each (moving_cloud.py). One writes numbered blocks to a volume that is
exported to it over NBD. The checker looks at the processes of the guests and at the blocks, not at the databases:
``Story.violations``.
"""
from __future__ import annotations

import contextlib
import pathlib
import re
import sqlite3
import subprocess
import sys
import typing

from nova.cmd.manage import differences
from nova.db.cells import cells
from nova.rpc import bus
from nova.tests.support import waiting
from nova.tests.integration import moving_cloud

ONE, TWO = 'compute1', 'compute2'
BLOCK, MOST = 4096, 16384                # bytes of a block, and how many are looked for
WRITER = ('echo writes-$((40+2)); n=0; while :; do n=$((n+1)); printf "%-4096s" "block $n" >/tmp/block; '
          'dd if=/tmp/block of=/dev/vdb bs=4096 seek=$n oflag=direct conv=fsync,notrunc 2>/dev/null || echo failed; '
          'sleep 0.5; done')
BLOCK_TEXT = re.compile(rb'block (\d+) +\Z')
# what a nova-compute runs that takes each row for true: the checker has to find what it does
IGNORING = '''
import sys
from nova import states
from nova.compute import records
records.refusal = lambda record, instance, request_id, event: None
records.is_removable = lambda what, record, row: row.state in states.GONE
records.Record.is_newer_than = lambda record, generation: False
from nova.cmd import compute
sys.exit(compute.main())
'''


class Fleet(moving_cloud.Fleet):
    """:ivar ignores: computes that are started now ignore generations"""

    ignores = restored = False

    def command(self, file: pathlib.Path) -> list[str | pathlib.Path]:
        if self.ignores:
            return [sys.executable, '-c', IGNORING, '--config-file', file]
        return super().command(file)

    def end(self) -> None:
        super().end()
        if self.restored:                # the first cloud is stopped by who started it
            self.cloud.stop(5)

    # ---- databases

    def _copy(self, source: str, target: str) -> None:
        for name in ('api', cells.DEFAULT_CELL):
            with sqlite3.connect(self.directory / 'cloud' / f'{name}.{source}') as read, sqlite3.connect(
                    self.directory / 'cloud' / f'{name}.{target}') as written:
                read.backup(written)

    def backup(self) -> None:
        self._copy('sqlite', 'backup')

    def stop_control_plane(self) -> None:
        for name in list(self.computes):
            self.kill(name)
        self.cloud.stop(5)

    def start_with_backup(self) -> None:
        """Bring the databases of the backup back, and start everything at once."""
        self._copy('backup', 'sqlite')
        before = self.cloud
        self.cloud = moving_cloud.Cloud(self.directory / 'cloud', messages__signatures='accept',
                                        network__bridge=moving_cloud.BRIDGE,
                                        service_down_time=moving_cloud.DOWN_S, conductor__reconcile_interval=2,
                                        conductor__task_deadline=15, my_ip=self.cluster.settings.ADDRESS,
                                        http__port=int(before.url.rpartition(':')[2]),
                                        volume__export_tls_dir=str(self.directory / 'volumes-tls'))
        bus.register_options(self.cloud.conf)
        self.cloud.conf.set_override('transport_url', self.url)
        self.cloud.start()
        self.restored = True
        for name in self.names:
            self.start(name)
        self.admin, self.user = self.cloud.admin('2.95'), self.cloud.client(version='2.95')
        self.all_up()

    def start_as(self, name: str, renamed: str) -> tuple[int | None, str]:
        """Start the nova-compute of a host under another name: (its exit code, None while it runs; what it said)."""
        self.kill(name)
        file, log = self.directory / f'{name}.conf', self.directory / f'{name}.log'
        said = log.stat().st_size
        file.write_text(file.read_text().replace(f'\nhost = {name}\n', f'\nhost = {renamed}\n'))
        with open(log, 'ab') as opened:
            process = self.computes[name] = subprocess.Popen(
                [str(word) for word in self.cluster.hosts.in_namespace(name, *self.command(file))],
                stdin=subprocess.DEVNULL, stdout=opened, stderr=opened, env=self.environment())
        waiting.wait_for(lambda: process.poll() is not None or f'on {renamed} serves' in log.read_text(
            errors='replace')[said:], 180, 'the compute to start or to end')
        return process.poll(), log.read_text(errors='replace')[said:]

    def processes(self) -> dict[tuple[str, str], int]:
        """{(host, uuid): process id of its QEMU}"""
        found = {}
        for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
            try:
                words = path.read_bytes().split(b'\0')
            except OSError:
                continue
            if b'qemu-system' not in words[0] or b'-uuid' not in words:
                continue
            uuid = words[words.index(b'-uuid') + 1].decode()
            for name in self.names:
                if any(str(self.directory / name).encode() in word for word in words):
                    found[name, uuid] = int(path.parent.name)
        return found


class Story:
    """What happens between the backup and its restore, and the check of it."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        admin = fleet.admin
        self.volume, self.later = self._volume(), self._volume()
        self.moved = fleet.boot(ONE, block_device_mapping_v2=[
            {'uuid': fleet.image, 'source_type': 'image', 'destination_type': 'local', 'boot_index': 0},
            {'uuid': self.volume, 'source_type': 'volume', 'destination_type': 'volume', 'boot_index': -1}])['id']
        self.deleted = fleet.boot(ONE, booted=False)['id']
        self.stays = fleet.boot(ONE)['id']
        fleet.tell(ONE, self.moved, WRITER, 'writes-42')
        try:
            waiting.wait_for(lambda: self.blocks() > 3, 60, 'the guest to write')
        except AssertionError as error:
            raise AssertionError(f'{error}: {fleet.console(ONE, self.moved)[-500:]!r}') from None
        fleet.backup()
        fleet.migrate_live(self.moved, TWO)
        fleet.migrated(self.moved)
        fleet.delete(self.deleted)
        self._attach(self.stays, self.later)
        self.created = fleet.boot(TWO, booted=False)['id']
        self.ports = self.ports_of(self.created)
        self.project = admin.get(f'/servers/{self.created}').json()['server']['tenant_id']
        self.before = fleet.processes()
        self.servers = {(TWO, self.moved), (ONE, self.stays), (TWO, self.created)}

    def _volume(self) -> str:
        made = self.fleet.admin.post('/volume/v3/volumes', {'volume': {'size': 1}}).json()['volume']['id']
        waiting.wait_for(lambda: self.status(made) == 'available', 60, 'the volume')
        return str(made)

    def ports_of(self, server: str) -> set[tuple[str, str, str, str]]:
        """{(id, MAC, address, host)}"""
        found = self.fleet.admin.get(f'/network/v2.0/ports?device_id={server}').json()['ports']
        return {(port['id'], port['mac_address'], each['ip_address'], port['binding:host_id'])
                for port in found for each in port['fixed_ips']}

    def status(self, volume: str) -> str:
        return str(self.fleet.admin.get(f'/volume/v3/volumes/{volume}').json()['volume']['status'])

    def _attach(self, server: str, volume: str) -> None:
        answer = self.fleet.admin.post(f'/servers/{server}/os-volume_attachments', {
            'volumeAttachment': {'volumeId': volume}})
        assert answer.status_code == 200, answer.text
        waiting.wait_for(lambda: self.status(volume) == 'in-use', 60, 'the volume to be attached')

    def blocks(self) -> int:
        """How many numbered blocks follow each other on the volume, from the first one on."""
        text, number = self.fleet.stored(self.volume, MOST * BLOCK), 0
        while ((found := BLOCK_TEXT.match(text[(number + 1) * BLOCK:(number + 2) * BLOCK]))
               and int(found[1]) == number + 1):
            number += 1
        return number

    def violations(self) -> list[str]:
        """What is not as it was when the databases were restored: a sentence each."""
        found, now = [], self.fleet.processes()
        for place in sorted(self.servers):
            if now.get(place) != self.before.get(place):
                found.append(f'The guest of {place[1]} on {place[0]} was ended: process {self.before.get(place)}, now '
                             f'{now.get(place)}.')
        for place in sorted(now.keys() - self.before.keys()):
            found.append(f'A second guest of {place[1]} runs on {place[0]}.')
        written = self.blocks()
        try:
            waiting.wait_for(lambda: self.blocks() > written + 2, 45, 'the guest to write on')
        except AssertionError:
            found.append(f'The guest of {self.moved} writes no more: its volume has {self.blocks()} blocks.')
        return found

    def settle(self) -> list[tuple[str, str, bool]]:
        """Let the rows follow the guests; [(server, kind, whether it was settled)]."""
        found = differences.read(self.fleet.cloud.cells)
        return [(each.uuid, each.report['kind'], done) for each, _outcome, done in differences.settled(
            self.fleet.cloud.api_db, found, True)]

    def reported(self) -> set[str]:
        return {each.uuid for each in differences.read(self.fleet.cloud.cells)}

    def rows_follow(self) -> bool:
        """Whether the API says of all guests where they are."""
        for host, uuid in self.servers:
            answer = self.fleet.admin.get(f'/servers/{uuid}')
            if answer.status_code != 200:
                return False
            server = answer.json()['server']
            if server['OS-EXT-SRV-ATTR:host'] != host or server['status'] != 'ACTIVE':
                return False
        return True

    def attachments(self, server: str) -> list[str]:
        answer = self.fleet.admin.get(f'/servers/{server}/os-volume_attachments')
        return [each['volumeId'] for each in answer.json()['volumeAttachments']]


def run(fleet: Fleet, ignores: bool) -> list[str]:
    """The whole story; what the checker found.

    :param ignores: the computes ignore generations
    """
    story = Story(fleet)
    fleet.stop_control_plane()
    fleet.ignores = ignores
    fleet.start_with_backup()
    if ignores:
        with contextlib.suppress(AssertionError):
            waiting.wait_for(lambda: fleet.processes() != story.before, 180, 'the computes to do what the rows say')
        return story.violations()
    waiting.wait_for(lambda: story.reported() >= {story.moved, story.deleted, story.created, story.stays}, 60,
                     'the hosts to report')
    found = story.violations()
    outcomes = story.settle()
    found += [f'{uuid} ({kind}) is not settled.' for uuid, kind, done in outcomes if not done]
    try:
        waiting.wait_for(lambda: not story.reported() and story.rows_follow(), 90, 'the rows to follow the guests')
    except AssertionError as error:
        found.append(f'{error}: {differences.read(fleet.cloud.cells)}')
    found += story.violations()
    if story.attachments(story.moved) != [story.volume] or story.attachments(story.stays) != [story.later]:
        found.append('Attachments do not follow the guests.')
    if {story.status(story.volume), story.status(story.later)} != {'in-use'}:
        found.append('Volumes of guests are not in use.')
    created = fleet.admin.get(f'/servers/{story.created}').json()['server']
    if story.ports_of(story.created) != story.ports:
        found.append(f'Server {story.created} has other ports: {story.ports_of(story.created)}, not {story.ports}.')
    try:
        waiting.wait_for(lambda: {port[3] for port in story.ports_of(story.moved)} == {TWO}, 60, 'the ports to follow')
    except AssertionError as error:
        found.append(f'{error}: {story.ports_of(story.moved)}')
    if created['tenant_id'] != story.project:
        found.append(f'Server {story.created} is of another project: {created["tenant_id"]}.')
    if fleet.admin.get(f'/servers/{story.deleted}').json()['server']['status'] != 'ERROR':
        found.append(f'Server {story.deleted}, which has no guest, is not in ERROR.')
    return found


def fleet() -> typing.ContextManager[Fleet]:
    return typing.cast('typing.ContextManager[Fleet]', moving_cloud.fleet(kind=Fleet))

