"""Kills in the middle of moves of real guests: a table of moments and victims, and what must be true afterwards.

Whatever dies, the guest runs on one host and once, with what it had on its disk (and in its memory, where it did not
have to be started anew), and no other host has anything of it: no guest, disk, state of a TPM, tap or export.

``walk`` takes one server from case to case; test_libvirt_killed_moves.py goes through some, tools/crash_test.py
--moves through all of them.
"""
from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import time
import typing

import sqlalchemy as sa

from nova import states
from nova.tests.support import waiting
from nova.tests.integration import moving_cloud

ONE, TWO = 'compute1', 'compute2'
AWAY_S = 1.5                             # what was killed is away for so long
LONG_S = 20                              # and for so long its host counts as down, while libvirt goes on
MIDDLE_S = 1.0                           # after the beginning of a step
COPIED_S = 6                             # after which a part of the disks has come to where they are copied
CUT_S = 45                               # longer than libvirt waits for the other end
# of the source's network: of a cold move only what the guest has changed travels, and it has to have a middle, too
RATES = {'live': '30mbit', 'cold': '3mbit', 'confirm': '30mbit', 'revert': '30mbit'}
SETTLES_S = 240
FINISHED = ('completed', 'confirmed', 'reverted', 'failed', 'error', 'cancelled')


@dataclasses.dataclass(frozen=True)
class Case:
    """
    move     of MOVES
    at       status of the migration, or task state of the server, at which the victim dies
    victim   of VICTIMS
    later    seconds after that moment
    away     seconds until what was killed is started again
    goes_on  what has come of the disks until then does not come again
    """

    move: str
    at: str
    victim: str
    later: float = 0
    away: float = AWAY_S
    goes_on: bool = False

    @property
    def name(self) -> str:
        return (f'{self.move}: {self.victim} at {self.at}' + (f' + {self.later} s' if self.later else '')
                + (f', away for {self.away} s' if self.away != AWAY_S else ''))


CASES = (
    *(Case('live', at, victim) for at in ('queued', 'preparing', 'running', 'post-migrating')
      for victim in ('source', 'destination')),
    *(Case('live', 'running', victim, MIDDLE_S) for victim in (
        'source', 'destination', 'guest there', 'libvirt here', 'libvirt there', 'cable')),
    Case('live', 'running', 'source', MIDDLE_S, LONG_S),
    *(Case('cold', at, victim) for at in (
        states.RESIZE_PREP, states.RESIZE_MIGRATING, states.RESIZE_MIGRATED, states.RESIZE_FINISH)
      for victim in ('source', 'destination')),
    *(Case('cold', states.RESIZE_FINISH, victim, MIDDLE_S) for victim in (
        'source', 'destination', 'libvirt here', 'libvirt there', 'cable')),
    *(Case('confirm', 'confirming', victim) for victim in ('source', 'destination')),
    *(Case('revert', states.RESIZE_REVERTING, victim) for victim in ('source', 'destination')),
    Case('cold', states.RESIZE_FINISH, 'destination', COPIED_S, goes_on=True),       # last: the disk gets larger
)
# what CI has the time for
SHORT = (Case('live', 'running', 'guest there', MIDDLE_S), Case('live', 'running', 'source', MIDDLE_S),
         Case('cold', states.RESIZE_FINISH, 'destination', MIDDLE_S))


class Walk:
    """One server on its way through cases.

    :param fleet: moving_cloud.Fleet with two hosts
    :param tell: gets a line for each case
    """

    def __init__(self, fleet: moving_cloud.Fleet, tell: typing.Callable[[str], typing.Any] = print) -> None:
        self.fleet, self._tell = fleet, tell
        self.server: str = ''

    def begin(self) -> None:
        self.server = self.fleet.boot(ONE)['id']
        self.fleet.keep(ONE, self.server)

    def run(self, case: Case) -> None:
        """:raises AssertionError: something is not as it must be"""
        fleet, server = self.fleet, self.server
        source = fleet.place(server)
        dest = TWO if source == ONE else ONE
        if case.goes_on:
            fleet.tell(source, server, 'dd if=/dev/urandom of=/root/more bs=64k count=64; sync; echo more-$((40+2))',
                       'more-42')
        began = time.monotonic()
        with fleet.slow(source, RATES[case.move]):
            if case.move in ('confirm', 'revert'):
                fleet.act(server, 'migrate', {'host': dest})
                fleet.migrated(server, 'finished', 'VERIFY_RESIZE')
            MOVES[case.move](fleet, server, dest)
            reached = self._reached(case)
            time.sleep(case.later if reached else 0)
            reached = reached and case.at in self._now()
            # a kill after the end proves nothing: only what passes in an instant may be missed
            assert reached or not case.later, f'the move was over before the kill: {self._now()}'
            with VICTIMS[case.victim](fleet, server, source, dest):
                time.sleep(case.away)
        fleet.all_up()
        status = self._settle()
        said = rf'Resuming the copies of the disks of {server}; [1-9]\d* bytes are already copied'
        assert not case.goes_on or re.search(said, (fleet.directory / f'{dest}.log').read_text()), (
            'the copies began anew')
        home = fleet.place(server)
        fleet.settled_at(home, server)
        warm = case.move == 'live'
        if not warm:
            fleet.booted_on(home, server)
        fleet.remembers(home, server, memory=warm)
        if not warm:
            fleet.keep(home, server)
        self._tell(f'{case.name}: {"" if reached else "(too late) "}{status}, on its '
                   f'{"source" if home == source else "destination"} after {time.monotonic() - began:.1f} s')

    def _reached(self, case: Case) -> bool:
        """Wait for the moment; whether it was seen, or the move was faster."""
        deadline = time.monotonic() + SETTLES_S
        while time.monotonic() < deadline:
            status, task = self._now()
            if case.at in (status, task):
                return True
            if task is None and status in (*FINISHED, 'finished'):
                return False
            time.sleep(0.002)
        raise AssertionError(f'{case.at} is not reached')

    def _now(self) -> tuple[str | None, str | None]:
        """(status of the newest migration, task state)"""
        with self.fleet.cloud.cell_db.reader() as conn:
            task = conn.execute(sa.text('SELECT task_state FROM instances WHERE uuid = :uuid'),
                                {'uuid': self.server}).scalar()
            status = conn.execute(sa.text(
                'SELECT status FROM migrations WHERE instance_uuid = :uuid ORDER BY id DESC LIMIT 1'),
                {'uuid': self.server}).scalar()
        return status, task

    def _settle(self) -> str:
        """Wait until the move has ended, and end it where its owner has to; the status of the migration."""
        def over() -> bool:
            status, task = self._now()
            return task is None and status in (*FINISHED, 'finished')
        waiting.wait_for(over, SETTLES_S, f'the move to end: {self._now()}\n{self.fleet.logs()}')
        found = self.fleet.admin.get(f'/servers/{self.server}').json()['server']
        if found['status'] == 'VERIFY_RESIZE':
            self.fleet.act(self.server, 'confirmResize', code=204)
            self.fleet.migrated(self.server, 'confirmed')
        assert self.fleet.user_server(self.server)['status'] == 'ACTIVE'
        return str(self._now()[0])


# ---- moves: begun, not waited for ----

def _live(fleet: moving_cloud.Fleet, server: str, dest: str) -> None:
    fleet.migrate_live(server, dest)


def _cold(fleet: moving_cloud.Fleet, server: str, dest: str) -> None:
    fleet.act(server, 'migrate', {'host': dest})


def _confirm(fleet: moving_cloud.Fleet, server: str, dest: str) -> None:
    fleet.act(server, 'confirmResize', code=204)


def _revert(fleet: moving_cloud.Fleet, server: str, dest: str) -> None:
    fleet.act(server, 'revertResize')


MOVES = {'live': _live, 'cold': _cold, 'confirm': _confirm, 'revert': _revert}


# ---- victims: killed, and at the end what an operator would have again is there again ----

@contextlib.contextmanager
def _compute(fleet: moving_cloud.Fleet, name: str) -> collections.abc.Iterator[None]:
    fleet.kill(name)
    yield
    fleet.start(name)


@contextlib.contextmanager
def _libvirt(fleet: moving_cloud.Fleet, name: str) -> collections.abc.Iterator[None]:
    fleet.parts[name].kill()
    yield
    fleet.parts[name].start()


@contextlib.contextmanager
def _guest(fleet: moving_cloud.Fleet, server: str, name: str) -> collections.abc.Iterator[None]:
    """The process of the guest on a host."""
    for pid in subprocess.check_output(['ip', 'netns', 'pids', fleet.namespace(name)], text=True).split():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            words = pathlib.Path(f'/proc/{pid}/cmdline').read_text()
            if 'qemu-system' in words and server in words:
                os.kill(int(pid), signal.SIGKILL)
    yield


@contextlib.contextmanager
def _cable(fleet: moving_cloud.Fleet, name: str) -> collections.abc.Iterator[None]:
    device = f'{fleet.cluster.settings.CABLES}{name.removeprefix("compute")}'
    subprocess.run(['ip', 'link', 'set', device, 'down'], check=True)
    time.sleep(CUT_S)
    yield
    subprocess.run(['ip', 'link', 'set', device, 'up'], check=True)


VICTIMS: dict[str, typing.Callable[..., contextlib.AbstractContextManager[None]]] = {
    'source': lambda fleet, server, source, dest: _compute(fleet, source),
    'destination': lambda fleet, server, source, dest: _compute(fleet, dest),
    'guest there': lambda fleet, server, source, dest: _guest(fleet, server, dest),
    'libvirt here': lambda fleet, server, source, dest: _libvirt(fleet, source),
    'libvirt there': lambda fleet, server, source, dest: _libvirt(fleet, dest),
    'cable': lambda fleet, server, source, dest: _cable(fleet, dest),
}
