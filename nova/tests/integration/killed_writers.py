"""Guests that write numbered blocks to exported volumes while QEMU, nova-compute and the exporter are killed.

Each guest writes to a volume of its own, over NBD with TLS: blocks that name their volume, their place and their
number. It says on its console that a block is written when the flush behind that has come back, and what it then reads
there, past its cache. The console is a file of the host, so what a guest has said is known after its end by SIGKILL,
too.

What is killed, at random: QEMU, after which a user starts the server again; nova-compute of the host, which is started
again; what exports the volumes, which the block storage starts again. After each end of a QEMU, and for all guests in
the end, the blocks of the volume are compared with what the guest has said: each has its last acknowledged number, or a
later one of the same guest.

``Proof`` is both forms: a short one in test_libvirt_killed_actions.py, and ``tools/proofs/volumes.py --guests``.
"""
from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import pathlib
import random
import re
import signal
import time
import typing

from nova.tests.support import waiting
from nova.tests.integration import moving_cloud
from nova.tests.support import libvirt as base

HOST = 'compute1'
BLOCK, BLOCKS = 4096, 64
STEP = 7919                  # from block to block; a prime, so all of them have their turn
AHEAD = 1_000_000            # each start of a writer begins so much later: its numbers are those of no other one
LEAST = 5                    # writes of each guest; fewer prove nothing
SAYS_S, STOPS_S = 60, 60
KINDS = ('QEMU', 'nova-compute', 'nova-compute', 'exporter', 'exporter')
WORDS = re.compile(rb'V([0-9a-f-]{36}) B(\d+) N(\d+) ')
SAID = re.compile(rb'ack (\d+) =(V[0-9a-f-]{36} B\d+ N\d+)? =')
LINE = ('echo beg""un-{begin}=; n={begin}; while :; do n=$((n+1)); b=$((n*{step}%{blocks})); '
        'printf "%-4096s" "V{volume} B$b N$n " >/tmp/block; '
        'dd if=/tmp/block of=/dev/vdb bs=4096 seek=$b oflag=direct conv=fsync,notrunc 2>/dev/null && '
        'echo "ack $n =$(dd if=/dev/vdb bs=4096 skip=$b count=1 iflag=direct 2>/dev/null | cut -d" " -f1-3) ="; done')


def block_of(number: int) -> int:
    return number * STEP % BLOCKS


@dataclasses.dataclass
class Writer:
    """A guest.

    begins        at which numbers it began, each time that it was started
    acknowledged  {block: its last number that the guest has said to be written}
    """

    server: str
    volume: str
    begins: list[int] = dataclasses.field(default_factory=list)
    acknowledged: dict[int, int] = dataclasses.field(default_factory=dict)
    said: set[int] = dataclasses.field(default_factory=set)

    def hear(self, console: bytes) -> list[str]:
        """Take up what it has said; what is wrong with what it has read."""
        wrong = []
        for number, read in ((int(each[1]), each[2]) for each in SAID.finditer(console)):
            self.said.add(number)
            block = block_of(number)
            self.acknowledged[block] = max(number, self.acknowledged.get(block, 0))
            if read is not None and read != self.words(number).rstrip():
                wrong.append(f'{self.volume}: read {read.decode()!r} where {number} was written')
        return wrong

    def words(self, number: int) -> bytes:
        """What a block begins with."""
        return f'V{self.volume} B{block_of(number)} N{number} '.encode()

    def compare(self, block: int, found: bytes) -> str | None:
        """What is wrong with what stands at a block."""
        least = self.acknowledged.get(block)
        if found == bytes(BLOCK):
            return None if least is None else f'{self.volume}: block {block} is empty, {least} was acknowledged'
        words = WORDS.match(found)
        if words is None or found[words.end():].strip(b' ') or len(found) != BLOCK:
            return f'{self.volume}: block {block} is torn: {found[:80]!r}'
        volume, place, number = words[1].decode(), int(words[2]), int(words[3])
        if volume != self.volume or place != block or block_of(number) != block:
            return f'{self.volume}: at block {block} stands what is of {volume}, block {place}'
        if number < (least or 0):
            return f'{self.volume}: at block {block} stands {number}; {least} was acknowledged'
        if not any(begin < number < begin + AHEAD for begin in self.begins):
            return f'{self.volume}: at block {block} stands {number}, which was never written'
        return None


class Proof:
    """
    :param fleet: of one host at least
    :param tell: called with a line for each kill
    """

    def __init__(self, fleet: moving_cloud.Fleet, tell: typing.Callable[[str], typing.Any] = lambda line: None) -> None:
        self.fleet, self._tell = fleet, tell
        self.writers: list[Writer] = []
        self.violations: list[str] = []
        self.kills: collections.Counter[str] = collections.Counter()
        self.compared = 0

    # ---- guests

    def boot(self, count: int) -> None:
        """So many guests that write."""
        made = [self.fleet.boot(HOST, booted=False, networks='none', block_device_mapping_v2=[
            {'boot_index': 0, 'source_type': 'image', 'uuid': self.fleet.image, 'destination_type': 'local'},
            {'boot_index': -1, 'source_type': 'blank', 'destination_type': 'volume', 'volume_size': 1,
             'delete_on_termination': True}]) for _number in range(count)]
        for server in made:
            held = self.fleet.admin.get(f'/servers/{server["id"]}/os-volume_attachments').json()['volumeAttachments']
            self.writers.append(Writer(server['id'], held[0]['volumeId']))
        for writer in self.writers:
            self.fleet.booted_on(HOST, writer.server)
            self._begin(writer)

    def _begin(self, writer: Writer) -> None:
        begin = (len(writer.begins) + 1) * AHEAD
        writer.begins.append(begin)
        line = LINE.format(begin=begin, volume=writer.volume, step=STEP, blocks=BLOCKS)
        self.fleet.tell(HOST, writer.server, line, f'begun-{begin}=')
        waiting.wait_for(lambda: b'ack %d' % (begin + 1) in self.fleet.console(HOST, writer.server), SAYS_S,
                         'the guest to write')

    def _qemu(self, writer: Writer) -> int:
        for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
            with contextlib.suppress(OSError):
                if b'-uuid\0' + writer.server.encode() in path.read_bytes() and (path.parent / 'exe').exists():
                    return int(path.parent.name)
        raise AssertionError(f'the guest of {writer.server} does not run')

    # ---- kills

    def run(self, seconds: float, seed: int, kinds: typing.Sequence[str] = KINDS) -> None:
        """Kill at random for a while, and see what is left."""
        chosen, end = random.Random(seed), time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(chosen.uniform(0.5, 2))
            self.kill(chosen.choice(kinds), chosen.choice(self.writers))
        self.finish()

    def finish(self) -> None:
        """The QEMUs of all guests are killed, once each has written something after all other kills."""
        self._sure_that_all_write()
        for writer in self.writers:
            self._kill_qemu(writer)

    def kill(self, kind: str, writer: Writer) -> None:
        """
        :param writer: the guest of which it is, where it is one's
        """
        if kind == 'QEMU':
            self._kill_qemu(writer)
            self._start_again(writer)
        elif kind == 'nova-compute':
            self.fleet.kill(HOST)
            self.fleet.start(HOST)
            self.kills[kind] += 1
        else:
            # one that was killed just now is started again first
            for daemon in waiting.wait_for(self.fleet.exporters, STOPS_S, 'an exporter'):
                daemon.kill()
                self.kills[kind] += 1
        self._tell(f'killed: {kind}')

    def _kill_qemu(self, writer: Writer) -> None:
        os.kill(self._qemu(writer), signal.SIGKILL)
        self.kills['QEMU'] += 1
        waiting.wait_for(lambda: self.fleet.cluster.hosts.guests(HOST).get(writer.server) != base.states.RUNNING,
                         STOPS_S, 'libvirt to see its end')
        self._compare(writer)

    def _start_again(self, writer: Writer) -> None:
        """As a user does who finds the server stopped."""
        self.fleet.all_up()
        self.fleet.user_server(writer.server, 'SHUTOFF')
        shown = self.fleet.console(HOST, writer.server).count(base.PROMPT)
        self.fleet.act(writer.server, 'os-start')
        self.fleet.user_server(writer.server)
        waiting.wait_for(lambda: self.fleet.console(HOST, writer.server).count(base.PROMPT) > shown, base.BOOT_SECONDS,
                         'the guest to boot again')
        self._begin(writer)

    def _sure_that_all_write(self) -> None:
        """Whatever was killed: it is there again, and each guest gets a block written."""
        for writer in self.writers:
            heard = self._hear(writer)
            waiting.wait_for(lambda: self._hear(writer) > max(heard, LEAST), SAYS_S,
                             f'the guest of {writer.server} to write on')
        self.fleet.all_up()

    # ---- what there is

    def _hear(self, writer: Writer) -> int:
        """How many blocks the guest has said to be written."""
        for wrong in writer.hear(self.fleet.console(HOST, writer.server)):
            if wrong not in self.violations:
                self.violations.append(wrong)
        return len(writer.said)

    def _compare(self, writer: Writer) -> None:
        self._hear(writer)
        for block in range(BLOCKS):
            wrong = writer.compare(block, self.fleet.stored(writer.volume, BLOCK, block * BLOCK))
            self.compared += 1
            if wrong is not None:
                self.violations.append(wrong)

    def line(self) -> str:
        """A line of numbers."""
        said = sum(len(writer.said) for writer in self.writers)
        killed = ', '.join(f'{kind} {number}' for kind, number in sorted(self.kills.items()))
        return (f'{said} acknowledged writes of {len(self.writers)} guests, {self.compared} blocks compared; '
                f'killed: {killed}; {len(self.violations)} violations')
