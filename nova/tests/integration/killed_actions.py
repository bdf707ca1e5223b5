"""Kills of nova-compute at each step of each action on one host: a table of actions, and what must be true afterwards.

An action is done once undisturbed; its steps (dying_compute.py) and what there is of the server afterwards are written
down. Then it is done again for each step, and nova-compute dies before it, and is started again. When the server rests
again, all that there is of it must be as it was the first time: its state, its guest and the devices of that, files,
taps, exports, the state of its TPM, secrets, ports, attachments, images, and what the placement of resources counts.

``Walk`` goes through actions; test_libvirt_killed_actions.py has some steps of some, tools/crash_test.py --actions all.
"""
from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import pathlib
import subprocess
import sys
import time
import typing
from concurrent import futures
from xml.etree import ElementTree as etree

import sqlalchemy as sa

from nova.db.placement import claims
from nova.tests.support import waiting
from nova.tests.integration import dying_compute
from nova.tests.integration import moving_cloud
from nova.tests.integration import prepared
from nova.tests.support import libvirt as base

HOST = 'compute1'
SETTLES_S, COMPARES_S = 120, 20
TPM = {'hw:tpm_version': '2.0', 'hw:tpm_model': 'tpm-crb'}
PLAIN = 'plain'                          # without a TPM: whose state an image does not have
# a guest with room, and what it gets while it runs: (flavor, vCPUs, MiB)
GROWING, ROOM = (('room', 1, 256), ('more', 2, 384)), {'hw:max_vcpus': '2', 'hw:max_mem_mb': '512'}
Facts = dict[str, typing.Any]


class Fleet(moving_cloud.Fleet):
    """One host, whose nova-compute can be told to die."""

    def begin(self, stack: contextlib.ExitStack) -> None:
        self.dying = self.directory / 'dying'
        self.dying.mkdir()
        self.dying.chmod(0o777)              # the process is an ordinary user by then
        super().begin(stack)
        answer = self.admin.post('/flavors/small/os-extra_specs', {'extra_specs': TPM})
        assert answer.status_code == 200, answer.text
        answer = self.admin.post('/flavors/large/os-extra_specs', {'extra_specs': TPM})
        assert answer.status_code == 200, answer.text
        answer = self.admin.post('/flavors', {'flavor': {'name': PLAIN, 'id': PLAIN, 'vcpus': 1, 'ram': 96, 'disk': 1}})
        assert answer.status_code == 200, answer.text
        for name, vcpus, ram in GROWING:
            answer = self.admin.post('/flavors', {'flavor': {'name': name, 'id': name, 'vcpus': vcpus, 'ram': ram,
                                                             'disk': 1}})
            assert answer.status_code == 200, answer.text
            self.admin.post(f'/flavors/{name}/os-extra_specs', {'extra_specs': {**TPM, **ROOM}})

    def command(self, file: pathlib.Path) -> list[str | pathlib.Path]:
        return [sys.executable, '-m', dying_compute.__name__, '--config-file', file]

    def environment(self) -> dict[str, str]:
        return {**prepared.environment(), 'NOVA_DIES_IN': str(self.dying)}

    def watch(self, at: int = 0) -> None:
        """Count steps from now on; the process dies before this one."""
        (self.dying / dying_compute.STEPS).unlink(missing_ok=True)
        (self.dying / dying_compute.LAST).unlink(missing_ok=True)
        part = self.dying / 'part'
        part.write_text(str(at))
        part.rename(self.dying / dying_compute.AT)

    def steps(self) -> list[str]:
        """Those that were counted; none are from now on."""
        (self.dying / dying_compute.AT).unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            return (self.dying / dying_compute.STEPS).read_text().splitlines()
        return []

    def dead(self) -> bool:
        """Whether nova-compute has died."""
        return self.computes[HOST].poll() is not None


@dataclasses.dataclass(frozen=True)
class Action:
    """
    name     in the table
    request  asks for it: function(walk)
    leaves   statuses in which the server may rest afterwards; GONE: there is none
    before   names of the actions that bring a server, ACTIVE, to where this one begins
    after    and of those that bring it back
    new      each time with a server of its own
    booted   the guest must have booted: it takes part
    flavor   of the server
    gives_up a restart takes it back (nova.actions.Restart): then all is as before, and its record says that it failed
    """

    name: str
    request: typing.Callable[[Walk], typing.Any]
    leaves: tuple[str, ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    new: bool = False
    booted: bool = False
    gives_up: bool = False
    flavor: str = 'small'


@dataclasses.dataclass(frozen=True)
class Row:
    """What came of an action: its steps, a sentence for each kill that left something else, and the longest time until
    all was well again."""

    action: str
    steps: list[str]
    kills: int
    missed: int                              # the action ended with fewer steps than the first time: no kill
    given_up: int                            # taken back, as its row in nova.actions says
    failed: list[str]
    longest_s: float

    @property
    def well(self) -> int:
        return self.kills - len(self.failed)


def _act(name: str, body: typing.Any = None, code: int = 202) -> typing.Callable[[Walk], None]:
    return lambda walk: walk.fleet.act(walk.server, name, body, code=code)


ACTIONS = {row.name: row for row in (
    Action('spawn', lambda walk: walk.ask_for_server(), ('ACTIVE',), after=('delete',), new=True),
    Action('stop', _act('os-stop'), ('SHUTOFF',), after=('start',)),
    Action('start', _act('os-start'), ('ACTIVE',), before=('stop',)),
    Action('reboot', _act('reboot', {'type': 'SOFT'}), ('ACTIVE',)),
    Action('hard reboot', _act('reboot', {'type': 'HARD'}), ('ACTIVE',)),
    Action('pause', _act('pause'), ('PAUSED',), after=('unpause',)),
    Action('unpause', _act('unpause'), ('ACTIVE',), before=('pause',)),
    Action('suspend', _act('suspend'), ('SUSPENDED',), after=('resume',)),
    Action('resume', _act('resume'), ('ACTIVE',), before=('suspend',)),
    Action('rescue', lambda walk: walk.rescue(), ('RESCUE',), after=('unrescue',)),
    Action('unrescue', _act('unrescue'), ('ACTIVE',), before=('rescue',)),
    Action('snapshot', lambda walk: walk.snapshot(), ('ACTIVE',), gives_up=True, flavor=PLAIN),
    Action('backup', lambda walk: walk.backup(), ('ACTIVE',), gives_up=True, flavor=PLAIN),
    Action('attach volume', lambda walk: walk.attach_volume(), ('ACTIVE',), after=('detach volume',)),
    Action('detach volume', lambda walk: walk.detach_volume(), ('ACTIVE',), before=('attach volume',), booted=True),
    Action('swap volume', lambda walk: walk.swap_volume(), ('ACTIVE',), before=('attach volume',),
           after=('detach volume',), booted=True),
    Action('attach interface', lambda walk: walk.attach_port(), ('ACTIVE',), after=('detach interface',),
           gives_up=True),
    Action('detach interface', lambda walk: walk.detach_port(), ('ACTIVE',), before=('attach interface',),
           booted=True),
    Action('resize', lambda walk: walk.resize(), ('VERIFY_RESIZE',), after=('revert',)),
    Action('grow', lambda walk: walk.grow(), ('ACTIVE',), after=('delete',), new=True, flavor=GROWING[0][0]),
    Action('confirm', _act('confirmResize', code=204), ('ACTIVE',), before=('resize',)),
    Action('revert', _act('revertResize'), ('ACTIVE',), before=('resize',)),
    Action('rebuild', lambda walk: walk.rebuild(), ('ACTIVE',)),
    Action('shelve', _act('shelve'), ('SHELVED_OFFLOADED',), after=('unshelve',), flavor=PLAIN),
    Action('unshelve', _act('unshelve'), ('ACTIVE',), before=('shelve',), flavor=PLAIN),
    Action('delete', lambda walk: walk.fleet.admin.delete(f'/servers/{walk.server}'), ('GONE',), new=True),
)}
# rebuilt, its disk is new
FORGETS = ('rebuild',)


class Walk:
    """One server on its way through actions.

    :param tell: gets a line for each kill
    """

    def __init__(self, fleet: Fleet, tell: typing.Callable[[str], typing.Any] = print) -> None:
        self.fleet, self._tell = fleet, tell
        self.server = self.volume = self.other = self.port = ''
        self.flavor = 'small'

    # ---- what actions ask for ----

    def ask_for_server(self) -> None:
        made = self.fleet.admin.boot(self.fleet.image, flavor=self.flavor, networks='auto', host=HOST, version='2.95')
        self.server = made['id']

    def rescue(self) -> None:
        self.fleet.act(self.server, 'rescue', {'rescue_image_ref': self.fleet.image}, code=200)

    def snapshot(self) -> None:
        self.fleet.act(self.server, 'createImage', {'name': f'of-{self.server}'})

    def backup(self) -> None:
        self.fleet.act(self.server, 'createBackup', {'name': f'of-{self.server}', 'backup_type': 'daily',
                                                     'rotation': 1})

    def rebuild(self) -> None:
        self.fleet.act(self.server, 'rebuild', {'imageRef': self.fleet.image})

    def resize(self) -> None:
        found = self.fleet.admin.get(f'/servers/{self.server}').json()['server']['flavor']['original_name']
        self.fleet.act(self.server, 'resize', {'flavorRef': 'large' if found == 'small' else 'small'})

    def grow(self) -> None:
        self.fleet.act(self.server, 'resize', {'flavorRef': GROWING[1][0]})

    def attach_volume(self) -> None:
        self.volume = self.volume or self._new_volume()
        waiting.wait_for(lambda: self._volume()['status'] == 'available', 60, 'the volume')
        self._ask('POST', 'os-volume_attachments', {'volumeAttachment': {'volumeId': self.volume}})

    def swap_volume(self) -> None:
        """The other of two volumes in the place of the one that the server has."""
        old, self.volume = self.volume, self.other or self._new_volume()
        self.other = old
        waiting.wait_for(lambda: self._volume()['status'] == 'available', 60, 'the other volume')
        self._ask('PUT', f'os-volume_attachments/{old}', {'volumeAttachment': {'volumeId': self.volume}})

    def _new_volume(self) -> str:
        answer = self.fleet.admin.post('/volume/v3/volumes', {'volume': {'size': 1}})
        return answer.json()['volume']['id']

    def detach_volume(self) -> None:
        self._ask('DELETE', f'os-volume_attachments/{self.volume}')

    def attach_port(self) -> None:
        network = self.fleet.admin.get('/network/v2.0/networks').json()['networks'][0]['id']
        if not self.port:
            answer = self.fleet.admin.post('/network/v2.0/ports', {'port': {'network_id': network}})
            self.port = answer.json()['port']['id']
        self._ask('POST', 'os-interface', {'interfaceAttachment': {'port_id': self.port}})

    def detach_port(self) -> None:
        self._ask('DELETE', f'os-interface/{self.port}')

    def _ask(self, method: str, path: str, body: typing.Any = None) -> None:
        answer = self.fleet.admin.request(method, f'/servers/{self.server}/{path}', body)
        assert answer.status_code in (200, 202, 204), answer.text

    def _volume(self) -> Facts:
        return self.fleet.admin.get(f'/volume/v3/volumes/{self.volume}').json()['volume']

    # ---- the walk ----

    def begin(self) -> None:
        """A server whose guest has something to remember."""
        self._do(ACTIONS['spawn'])
        self.fleet.booted_on(HOST, self.server)
        self.fleet.keep(HOST, self.server)

    def run(self, action: Action, only: collections.abc.Collection[int] | None = None) -> Row:
        """Kill nova-compute before each step of an action.

        :param only: numbers of steps; negative ones count from the end; None: all
        """
        if action.new or self.flavor != action.flavor:
            self.fleet.clear()
            self.server = ''
        self.flavor = action.flavor
        if not action.new and not self.server:
            self.begin()
        self._to(action)
        self.fleet.watch()
        self._do(action)
        steps, wanted = self.fleet.steps(), self._facts()
        self._back(action)
        numbers = [*range(1, len(steps) + 1)]
        chosen = numbers if only is None else [numbers[number] for number in only]
        failed, longest, missed, given_up = [], 0.0, 0, 0
        for number in chosen:
            self._to(action)
            began = time.monotonic()
            what = steps[number - 1]
            try:
                before = self._facts() if action.gives_up else None
                died = self._killed(action, number)
                taken_back = self._settled(wanted, before)
                missed += not died
                what, result = died or what, 'well again' if died else 'over before that, not killed'
                if taken_back:
                    given_up, result = given_up + 1, 'taken back'
                else:
                    self._back(action)
            except Exception as error:
                result = f'{type(error).__name__}: {error}'
                failed.append(f'{action.name}, before {number} ({what}): {result}')
                self._anew(action)
            longest = max(longest, time.monotonic() - began)
            self._tell(f'{action.name}: killed before step {number} of {len(steps)} ({what}): {result} '
                       f'after {time.monotonic() - began:.1f} s')
        if not action.new and action.name not in FORGETS and not failed:
            self._remembered()
        return Row(action.name, steps, len(chosen) - missed, missed, given_up, failed, longest)

    def _killed(self, action: Action, number: int) -> str:
        """Name of the step before which it died, when the server rests again; '' when it was over before."""
        self.fleet.watch(number)
        with self._requested(action) as asked:
            died = self._died(action, asked.done)
        waiting.wait_for(lambda: self._rests(action), SETTLES_S, f'{action.name} to end: {self._shown()}')
        self.fleet.all_up()
        return died

    def _settled(self, wanted: Facts, before: Facts | None) -> bool:
        """Wait until all is as it must be; whether the action was taken back.

        :param before: how that would be, but for the record; None: it may not be
        """
        def same() -> bool:
            found = self._facts()
            if before is not None and found['result'][1:] == ('Error',):
                different = _different(found, {**before, 'result': found['result']})
                assert not different, f'taken back, but {different}'
                return True
            different = _different(found, wanted)
            assert not different, different
            return False
        return waiting.settled(same, COMPARES_S, 0.3)

    @contextlib.contextmanager
    def _requested(self, action: Action) -> collections.abc.Iterator[futures.Future[typing.Any]]:
        """Ask for an action; some answers wait for the host, and are refusals when it dies."""
        with futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(action.request, self)
            yield asked
            error = asked.exception()
            if error is not None:
                self._tell(f'{action.name}: answered with {str(error)[:200]}')

    def _died(self, action: Action, begun: typing.Callable[[], bool]) -> str:
        """Name of the step before which nova-compute died, and was started again; '' when all was over before."""
        fleet = self.fleet
        waiting.wait_for(lambda: fleet.dead() or begun() and self._rests(action), SETTLES_S, 'the end of nova-compute')
        if not fleet.dead():
            fleet.steps()
            return ''
        fleet.computes.pop(HOST).wait()
        fleet.start(HOST)
        return (fleet.dying / dying_compute.LAST).read_text()

    def _to(self, action: Action) -> None:
        if action.new:
            self.server = ''
        if action.name == 'spawn':
            self._empty_cache()
        elif action.new:
            self._do(ACTIONS['spawn'])
        for name in action.before:
            self._do(ACTIONS[name])
        if action.booted:
            self.fleet.booted_on(HOST, self.server)

    def _empty_cache(self) -> None:
        """No server uses an image: the next one downloads it."""
        for path in (self.fleet.places[HOST] / 'instances' / '_base').iterdir():
            if path.suffix != '.lock':
                path.unlink()

    def _back(self, action: Action) -> None:
        for name in action.after:
            self._do(ACTIONS[name])
        for image in self._images():
            self.fleet.admin.delete(f'/image/v2/images/{image["id"]}')
        if action.new:
            self.server = ''

    def _do(self, action: Action) -> None:
        if action.booted:
            self.fleet.booted_on(HOST, self.server)
        action.request(self)
        waiting.wait_for(lambda: self._rests(action), SETTLES_S, f'{action.name} to end: {self._shown()}')

    def _anew(self, action: Action) -> None:
        """Go on with another server."""
        self.fleet.steps()
        if HOST in self.fleet.computes:
            self.fleet.kill(HOST)
        with contextlib.suppress(AssertionError):
            self.fleet.restore()
        self.server = self.volume = self.other = self.port = ''
        if not action.new:
            self.begin()

    def _remembered(self) -> None:
        """Started anew, the guest has what it had on its disk."""
        before = len(self.fleet.console(HOST, self.server))
        self._do(ACTIONS['hard reboot'])
        # the boot loader takes what is typed before for a choice of its menu, and waits
        waiting.wait_for(lambda: base.PROMPT in self.fleet.console(HOST, self.server)[before:], base.BOOT_SECONDS,
                         'the guest to boot again')
        self.fleet.remembers(HOST, self.server, memory=False)

    # ---- what there is ----

    def _shown(self) -> Facts:
        answer = self.fleet.admin.get(f'/servers/{self.server}')
        if answer.status_code == 404:
            return {'status': 'GONE', 'OS-EXT-STS:task_state': None}
        return answer.json()['server']

    def _open(self) -> list[str]:
        """What is being done to it, by its record."""
        with self.fleet.cloud.cell_db.reader() as conn:
            return list(conn.execute(sa.text('SELECT action FROM instance_actions WHERE finished_at IS NULL AND '
                                             'instance_uuid = :uuid'), {'uuid': self.server}).scalars())

    def _result(self) -> tuple[str, str | None]:
        """(the newest action, how it ended) as its record says."""
        with self.fleet.cloud.cell_db.reader() as conn:
            return tuple(conn.execute(sa.text('SELECT action, message FROM instance_actions WHERE '
                                              'instance_uuid = :uuid ORDER BY id DESC LIMIT 1'),
                                      {'uuid': self.server}).first() or ())

    def _rests(self, action: Action) -> bool:
        shown = self._shown()
        if shown['OS-EXT-STS:task_state'] or self._open():
            return False
        return shown['status'] in (*action.leaves, 'ERROR')

    def _images(self) -> list[Facts]:
        return self.fleet.admin.get(f'/image/v2/images?name=of-{self.server}').json()['images']

    def _facts(self) -> Facts:
        """All that there is of the server, with nothing that differs from one time to the next."""
        fleet, ident, shown = self.fleet, self.server, self._shown()
        place = fleet.places[HOST] / 'instances'
        ports = fleet.ports(ident) if ident else []
        links = subprocess.check_output(['ip', '-n', fleet.namespace(HOST), '-brief', 'link'], text=True)
        images = sorted((image['status'], bool(image['size'])) for image in self._images())
        return {
            'status': shown['status'], 'fault': (shown.get('fault') or {}).get('message'),
            'result': self._result(), 'guest': fleet.cluster.hosts.guests(HOST).get(ident), 'devices': self._devices(),
            'power': shown.get('OS-EXT-STS:power_state'),
            'files': sorted(f'{path.parent.name}/{path.name}'.replace(ident, 'UUID')
                            for top in place.glob(f'{ident}*') for path in top.rglob('*')),
            'parts': sorted(path.name for path in place.rglob('*.part')),
            'TPM': sorted(path.name.replace(ident, 'UUID') for path in (
                fleet.cluster.hosts.directory(HOST) / 'lib' / 'swtpm').glob(f'{ident}*')),
            'taps': links.count('tap') if ident else 0,
            'ports': len(ports), 'bound': sorted(port['binding:host_id'] or '' for port in fleet.admin.get(
                f'/network/v2.0/ports?device_id={ident}').json()['ports']) if ident else [],
            'exports': fleet.exported(), 'secrets': len(fleet.virsh(HOST, 'secret-list').splitlines()),
            'volume': (self._volume()['status'], len(self._volume()['attachments'])) if self.volume else None,
            'attached': len(shown.get('os-extended-volumes:volumes_attached', ())),
            'images': images,
            'claims': fleet.cloud.cell_db.run(claims.audit),
        }

    def _devices(self) -> list[str]:
        """Of the guest as it runs and as it is defined; [] without one."""
        found = []
        for option in ('--inactive', ''):
            try:
                text = self.fleet.virsh(HOST, 'dumpxml', self.server, *filter(None, [option]))
            except RuntimeError:
                return []
            root = etree.fromstring(text)
            count = root.find('vcpu')
            found.append(f'{option} {root.findtext("memory")} KiB, {count.get("current", count.text)} CPUs'
                         if count is not None else '')
            found += sorted(f'{option} {each.tag} {each.get("type")} {each.find("target").get("dev") or ""}'
                            if each.tag == 'disk' else f'{option} {each.tag} {each.get("type")}'
                            for kind in ('disk', 'interface', 'tpm') for each in root.findall(f'devices/{kind}'))
        return found


def _different(found: Facts, wanted: Facts) -> dict[str, tuple[typing.Any, typing.Any]]:
    """{name: (what is found, what should be)}"""
    return {name: (found.get(name), wanted[name]) for name in wanted if found.get(name) != wanted[name]}


@contextlib.contextmanager
def fleet() -> collections.abc.Iterator[Fleet]:
    with moving_cloud.fleet(1, kind=Fleet) as made:
        yield typing.cast(Fleet, made)


def table(rows: collections.abc.Iterable[Row]) -> str:
    """The rows as text."""
    head = ('action', 'steps', 'kills', 'not reached', 'well again', 'of these taken back', 'longest s')
    lines = [head, *((row.action, str(len(row.steps)), str(row.kills), str(row.missed), str(row.well),
                      str(row.given_up), f'{row.longest_s:.1f}') for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return '\n'.join('  '.join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)
