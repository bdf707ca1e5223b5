"""Runs the tests in parts, as ``nova.tests.plan`` says: tools/test.sh calls it when what they need is installed.

    python -m nova.tests.runner unit functional -- -k placement        # words after -- go to pytest
    python -m nova.tests.runner unit -- nova/tests/unit/test_rpc.py    # files restrict a part
    python -m nova.tests.runner --long unit contract functional integration

A failed test fails the run. It runs once more with nothing beside it, for information: a test that passes then depends
on time or on its neighbours. Only those of nova/tests/unstable.tsv are forgiven. After NOVA_TEST_MINUTES what runs is
named, with stacks, and ended.
"""
import argparse
import collections
import collections.abc
import dataclasses
import datetime
import fcntl
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from nova.tests import plan

AGAIN_S, AGAIN_FILES = 600, 3   # failed tests run again for so long at most, of so many files of a part
STARTS = 3                      # of a part's process that died, for the rest of its files
GRACE_S = 60                    # for fixtures, to end what they have started
EVERY_S = 300                   # between two lists of what runs
NOTHING_S = 0.5
STACK_LINES = 120
OWN = ('NOVA_TEST_QUEUE', 'NOVA_TEST_RESULTS', 'NOVA_TEST_RUNNING', 'NOVA_TEST_PART', 'NOVA_TEST_SELECT',
       'NOVA_TEST_ALTERNATE')
SLOWER = 1.2                    # a file may take so many times its expected duration
DOTS = re.compile(r'^[.sxEFX]* *(\[ *\d+%\])?$')
RAN = ('passed', 'failed', 'skipped')
NO_TESTS = 5
FINE = (0, 1, NO_TESTS)         # codes of pytest whose results say what failed, if they say that it has ended
ENDED = 'ended'                 # by itself; faulthandler ends a process of a test that hangs with code 1, too


@dataclasses.dataclass
class Result:
    outcome: str
    seconds: float
    processor: float
    name: str


@dataclasses.dataclass
class Process:
    part: plan.Part
    label: str
    child: subprocess.Popen[bytes]
    began: float
    results: list[Result] = dataclasses.field(default_factory=list)
    offset: int = 0                 # in the file of results, of what is not in the list
    read: int = 0                   # of the list, by the part


class Part:
    """What has become of a part."""

    def __init__(self, part: plan.Part) -> None:
        self.part = part
        self.began: float | None = None
        self.ended: float | None = None
        self.started = 0
        self.results: list[Result] = []
        self.faults: list[str] = []

    def failed(self) -> list[str]:
        return list(dict.fromkeys(result.name for result in self.results if result.outcome == 'failed'))

    def count(self, *outcomes: str) -> int:
        return sum(result.outcome in outcomes for result in self.results)


class Run:
    """Processes of parts, beside each other where there is room.

    :param directory: for queues, outputs and results
    :param until: time.time() after which what runs is ended
    :param soft: no file of tests begins later than this, and none that is not expected to end before `until`
    :param expected: seconds of files
    """

    def __init__(self, parts: collections.abc.Sequence[plan.Part], directory: pathlib.Path, *, cores: int, until: float,
                 options: collections.abc.Sequence[str] = (), environ: collections.abc.Mapping[str, str] | None = None,
                 soft: float | None = None, expected: collections.abc.Mapping[str, float] | None = None,
                 tree: pathlib.Path = plan.TREE) -> None:
        self.parts = [Part(part) for part in parts]
        self.left: list[str] = []                    # files that did not begin in time
        self.overdue = self.stopped = False
        self._directory, self._cores, self._until = directory, cores, until
        self._options, self._tree = list(options), tree
        self._environ = {**{name: value for name, value in os.environ.items() if name not in OWN}, **(environ or {})}
        self._processes: list[Process] = []
        self._start = self._told = time.time()
        (directory / 'running').mkdir(exist_ok=True)
        took = plan.durations()
        may = plan.expected() if expected is None else expected
        self._latest: dict[str, float] = {}          # when a file may begin at the latest
        for part in parts:
            files = sorted(part.files, key=lambda file: -took.get(file, 0.0))
            if soft is not None:
                self._latest |= {file: min(soft, until - may.get(file, 0.0) * SLOWER) for file in files}
            self._queue(part).write_text(''.join(self._line(file) for file in files))

    def run(self) -> None:
        """Until all parts have ended, or their time is over."""
        while not self.stopped:
            self._reap()
            self._begin()
            if not self._processes:
                self._end_parts()
                if all(part.ended for part in self.parts):
                    return
                if not any(self._may_begin(part) for part in self.parts):
                    break
            if time.time() >= self._until:
                self.overdue = True
                self._say(f'the time is over: what runs is ended\n{self._running()}\n{self._stacks()}')
                break
            if time.time() - self._told >= EVERY_S:
                self._told = time.time()
                self._say(f'runs:\n{self._running()}')
            time.sleep(NOTHING_S)
        self.end()
        for part in self.parts:
            if not part.ended:
                part.faults.append('has not ended' if part.began else 'has not begun')

    def stop(self, *_signal: object) -> None:
        """As a handler of signals: the loop ends what runs."""
        self.stopped = True

    def again(self) -> set[str]:
        """Run failed tests with nothing beside them; the names of those that passed."""
        passed: set[str] = set()
        last = min(time.time() + AGAIN_S, self._until)
        for part in self.parts:
            names = [name for name in part.failed() if '::' in name]
            files = {name.partition('::')[0] for name in names}
            if not names or len(files) > AGAIN_FILES or time.time() >= last or self.stopped:
                continue
            self._say(f'once more, alone: {" ".join(names)}')
            label = f'{_word(part.part.name)}.again'
            process = self._start_process(part, label, [*names, '-n', '0'], None)
            while process.child.poll() is None and time.time() < last and not self.stopped:
                time.sleep(NOTHING_S)
            if process.child.poll() is None:
                self.end()
            self._processes = []
            self._print(process, whole=True)
            outcomes = self._results(process)
            passed |= {result.name for result in outcomes if result.outcome == 'passed' and result.name in names}
            passed -= {result.name for result in outcomes if result.outcome == 'failed'}
        return passed

    def end(self) -> None:
        """What this process has begun gets SIGTERM, and SIGKILL after a minute."""
        begun = _identities(descendants(os.getpid()))
        _send([process.child.pid for process in self._processes], signal.SIGTERM)
        until = time.monotonic() + GRACE_S
        while time.monotonic() < until and any(process.child.poll() is None for process in self._processes):
            time.sleep(NOTHING_S)
        begun |= _identities(descendants(os.getpid()))
        _send([pid for pid, start in begun if alive(pid) and _start(pid) == start], signal.SIGKILL)
        for process in self._processes:
            process.child.wait()
            self._print(process, whole=True)
            self._read(process)
        self._processes = []

    # Beginning

    def _begin(self) -> None:
        for part in self.parts:
            while self._may_begin(part) and self._has_room(part.part):
                self._begin_process(part)

    def _may_begin(self, part: Part) -> bool:
        earlier = [other for other in self.parts if other.part.stage < part.part.stage and other.part.files]
        if part.ended or not all(other.ended for other in earlier):
            return False
        if any(other.part.name in part.part.needs and not other.ended for other in self.parts):
            return False
        running = sum(process.part is part.part for process in self._processes)
        if part.part.command:
            return part.began is None
        most = min(max(round(part.part.workers * self._cores), 1), len(part.part.files))
        return any(self._in_time(file) for file in self._rest(part)) and running < most and part.started < most + STARTS

    def _has_room(self, part: plan.Part) -> bool:
        if not self._processes:
            return True
        if part.alone or any(process.part.alone for process in self._processes):
            return False
        real = sum(process.part.suite == 'integration' and not process.part.command for process in self._processes)
        others = len(self._processes) - real
        if part.suite == 'integration' and not part.command and real >= self._cores + plan.REAL_MORE:
            return False
        if part.suite != 'integration' and real and others >= self._cores * plan.BESIDE_REAL:
            return False
        return sum(process.part.load for process in self._processes) + part.load <= self._cores + 0.01

    def _begin_process(self, part: Part) -> None:
        part.started += 1
        many = part.part.workers > 0
        label = f'{_word(part.part.name)}-{part.started}' if many or part.started > 1 else _word(part.part.name)
        if part.began is None:
            part.began = time.time()
            self._say(f'{part.part.name} begins')
        self._start_process(part, label, [], self._queue(part.part))

    def _start_process(self, part: Part, label: str, names: list[str], queue: pathlib.Path | None) -> Process:
        environ = {**self._environ, **part.part.environ}
        if part.part.command:
            command = list(part.part.command)
        else:
            environ |= {'NOVA_TEST_PART': label, 'NOVA_TEST_RUNNING': str(self._directory / 'running'),
                        'NOVA_TEST_RESULTS': str(self._file(label, 'results'))}
            if queue is not None:
                environ['NOVA_TEST_QUEUE'] = str(queue)
                names = sorted({file.rpartition('/')[0] for file in part.part.files})
            command = [sys.executable, '-m', 'pytest', '-q', '-p', 'nova.tests.worker',
                       '-o', f'cache_dir={self._file(label, "cache")}', '-o', 'console_output_style=classic',
                       *part.part.options, *names, *self._options]
            if part.part.network and os.geteuid() == 0:
                command = ['unshare', '--net', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh', *command]
        with self._file(label, 'out').open('wb') as out:
            child = subprocess.Popen(command, env=environ, cwd=self._tree, stdin=subprocess.DEVNULL, stdout=out,
                                     stderr=subprocess.STDOUT)
        process = Process(part.part, label, child, time.time())
        self._processes.append(process)
        return process

    # Ending

    def _reap(self) -> None:
        for process in list(self._processes):
            over = process.child.poll() is not None
            self._read(process)
            if not over:
                continue
            self._processes.remove(process)
            part = self._part(process)
            code = process.child.returncode
            codes = process.part.codes if process.part.command else FINE
            died = not process.part.command and all(result.outcome != ENDED for result in self._results(process))
            if died or code not in codes or (code == 1 and not process.part.command and not part.failed()):
                part.faults.append(f'{process.label} has ended with code {code}')
                self._blame(process, part)
            self._print(process, whole=died or code not in codes or bool(process.part.command and code) or code == 1)
        self._end_parts()

    def _end_parts(self) -> None:
        """Parts with nothing that runs and nothing left."""
        for part in self.parts:
            if part.ended or any(process.part is part.part for process in self._processes):
                continue
            rest = self._rest(part)
            if part.part.command and part.began is None:
                continue
            if rest and not any(self._in_time(file) for file in rest):
                self.left += rest
            elif rest and (part.began is None or self._may_begin(part)):
                continue
            elif rest:
                part.faults.append(f'{len(rest)} files have not run')
            part.ended = time.time()
            if part.began is not None:
                self._say(f'{part.part.name} has ended after {part.ended - part.began:.0f} s')

    def _rest(self, part: Part) -> list[str]:
        """Files in the queue."""
        with self._queue(part.part).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            return [line.partition('\t')[0] for line in file.read().splitlines()]

    def _line(self, file: str) -> str:
        """Of the queue."""
        return f'{file}\t{self._latest[file]}\n' if file in self._latest else f'{file}\n'

    def _in_time(self, file: str) -> bool:
        return file not in self._latest or time.time() < self._latest[file]

    def _blame(self, process: Process, part: Part) -> None:
        """The test at which a process of pytest has died has failed. Other files that it had taken are for others."""
        own = self._results(process)
        begun = {result.name.partition('::')[0] for result in own if result.outcome in RAN}
        try:
            _, _, text = (self._directory / 'running' / str(process.child.pid)).read_text().split(' ', 2)
        except (OSError, ValueError):
            text = ''
        name = text.strip().removeprefix('setup of ').removeprefix('teardown of ')
        if '::' in name:
            part.results.append(Result('failed', 0.0, 0.0, name))
            begun.add(name.partition('::')[0])
        with self._queue(process.part).open('a') as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            taken = [result.name for result in own if result.outcome == 'taken']
            file.writelines(self._line(name) for name in taken if name not in begun)

    def _read(self, process: Process) -> None:
        """New results; a failure is told at once."""
        if process.part.command:
            return
        found = self._results(process)
        for result in found[process.read:]:
            self._part(process).results.append(result)
            if result.outcome == 'failed':
                self._say(f'FAILED {result.name} ({process.label}, {result.seconds:.0f} s)')
        process.read = len(found)

    def _results(self, process: Process) -> list[Result]:
        file = self._file(process.label, 'results')
        if file.exists() and file.stat().st_size > process.offset:
            with file.open('rb') as written:
                written.seek(process.offset)
                lines = written.read().rpartition(b'\n')[0]
            if lines:
                process.offset += len(lines) + 1
                rows = [line.split('\t', 3) for line in lines.decode().split('\n')]
                process.results += [Result(outcome, float(seconds), float(processor), name)
                                    for outcome, seconds, processor, name in rows]
        return process.results

    def _part(self, process: Process) -> Part:
        return next(part for part in self.parts if part.part is process.part)

    # Telling

    def _print(self, process: Process, *, whole: bool) -> None:
        """What a process has printed: without its dots, or whole where something failed."""
        text = self._file(process.label, 'out').read_text(errors='replace')
        if not whole:
            text = '\n'.join(line for line in text.splitlines() if not DOTS.match(line))
            if process.part.command or not process.part.options:
                text = '\n'.join(text.splitlines()[-1:])
        self._say(f'{process.label} has ended with code {process.child.returncode} after '
                  f'{time.time() - process.began:.0f} s\n{text.rstrip()}')

    def _say(self, text: str) -> None:
        seconds = int(time.time() - self._start)
        print(time.strftime('[%H:%M:%S') + f' {seconds // 60}:{seconds % 60:02}] {text}', flush=True)

    def _running(self) -> str:
        """What each process does, and since when."""
        now, lines = time.time(), []
        for process in self._processes:
            done = sum(part.count(*RAN) for part in self.parts if part.part is process.part)
            words = self._doing(process.child.pid)
            since, text = (now - float(words[0]), words[-1]) if words else (now - process.began, f'({done} tests done)')
            lines.append(f'{since:7.0f} s  {process.label} {text}')
        return '\n'.join(lines)

    def _doing(self, pid: int) -> list[str]:
        """The file of nova.tests.limits: time, part, what; of the process, or of what it was begun by."""
        for number in [pid, *sum(descendants(pid), [])]:
            file = self._directory / 'running' / str(number)
            words = file.read_text().strip().split(' ', 2) if file.exists() else []
            if len(words) == 3:
                return words
        return []

    def _stacks(self) -> str:
        """Of all threads of each process of pytest. The number of one that has ended may be another program's."""
        own = set(sum(descendants(os.getpid()), []))
        files = [file for file in (self._directory / 'running').iterdir()
                 if file.name.isdigit() and int(file.name) in own and alive(int(file.name))]
        _send([int(file.name) for file in files], signal.SIGUSR2)
        time.sleep(2 if files else 0)
        found = []
        for file in files:
            stacks = file.with_suffix('.stacks')
            lines = stacks.read_text().splitlines() if stacks.exists() else []
            found.append('\n'.join([f'---- {file.read_text().strip()}', *lines[:STACK_LINES]]))
        return '\n'.join(found)

    def _queue(self, part: plan.Part) -> pathlib.Path:
        return self._file(_word(part.name), 'queue')

    def _file(self, label: str, kind: str) -> pathlib.Path:
        return self._directory / f'{label}.{kind}'


def _word(name: str) -> str:
    return re.sub(r'\W+', '-', name)


def _status(pid: int) -> list[str]:
    """The values of /proc/PID/stat from the state on, which is the third one; [] when there is no such process."""
    try:
        return pathlib.Path('/proc', str(pid), 'stat').read_text().rpartition(')')[2].split()
    except OSError:
        return []


def alive(pid: int) -> bool:
    return _status(pid)[:1] not in ([], ['Z'])


def _start(pid: int) -> str:
    """When a process began, in ticks of the machine."""
    return ''.join(_status(pid)[19:20])


def _identities(levels: list[list[int]]) -> set[tuple[int, str]]:
    """(number, start) of processes: the number of one that has ended is given to another one."""
    return {(pid, _start(pid)) for pid in sum(levels, [])}


def descendants(pid: int) -> list[list[int]]:
    """The children of a process, theirs, and so on."""
    parents: dict[int, int] = {}
    for directory in pathlib.Path('/proc').iterdir():
        if directory.name.isdigit() and (status := _status(int(directory.name))):
            parents[int(directory.name)] = int(status[1])
    found = [[pid]]
    while found[-1]:
        found.append([child for child, parent in parents.items() if parent in found[-1]])
    return found[1:]


def _send(pids: collections.abc.Iterable[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue


# The verdict


def verdict(run: Run, passed_alone: collections.abc.Collection[str], unstable: collections.abc.Sequence[plan.Unstable],
            today: datetime.date) -> tuple[list[str], list[str]]:
    """What fails the run, and what is only told."""
    valid = [row for row in unstable if (today - row.date).days <= plan.UNSTABLE_DAYS]
    faults, told = [], []
    for part in run.parts:
        faults += [f'{part.part.name}: {fault}' for fault in part.faults]
        for name in part.failed():
            listed = next((row for row in valid if plan.is_listed(name, {row.name})), None)
            if name not in passed_alone:
                faults.append(f'{part.part.name}: {name} failed')
            elif listed is not None:
                told.append(f'{name} failed beside others and passed alone: unstable since {listed.date}: '
                            f'{listed.reason}')
            else:
                faults.append(f'{part.part.name}: {name} failed beside others and passed alone: mend what it shows')
    return faults, told


def table(run: Run) -> list[str]:
    """Seconds, tests and failures by part."""
    rows = [f'{"part":26} {"seconds":>8} {"processor":>10} {"passed":>7} {"skipped":>8} {"failed":>7} {"left out":>9}']
    for part in run.parts:
        took = (part.ended or time.time()) - part.began if part.began else 0.0
        used = sum(result.processor for result in part.results)
        rows.append(f'{part.part.name:26} {took:8.0f} {used:10.0f} {part.count("passed"):7} {part.count("skipped"):8} '
                    f'{len(part.failed()):7} {part.count("left out"):9}')
    return rows


def share_left_out(run: Run) -> tuple[int, int]:
    """Tests outside of this run, and all; a test that both thread models have counts once."""
    out = {result.name for part in run.parts for result in part.results if result.outcome == 'left out'}
    return len(out), len(out | {result.name for part in run.parts for result in part.results if '::' in result.name})


def record(run: Run, path: pathlib.Path) -> None:
    """Write the seconds of each file that ran; other lines of the file stay."""
    seconds: dict[str, float] = collections.defaultdict(float)
    processor: dict[str, float] = collections.defaultdict(float)
    for part in run.parts:
        for result in part.results:
            if result.outcome in RAN:
                file = result.name.partition('::')[0]
                seconds[file] += result.seconds
                processor[file] += result.processor
    rows = {file: f'{file}\t{seconds[file]:.1f}\t{processor[file]:.1f}' for file in seconds}
    if path.exists():
        rows = {**{line.partition('\t')[0]: line for line in path.read_text().splitlines() if line[:1] != '#'}, **rows}
    path.write_text('# file, seconds, seconds of a processor; NOVA_TEST_RECORD of tools/test.sh writes it\n' +
                    ''.join(f'{rows[file]}\n' for file in sorted(rows)))


def _commit_time() -> int:
    done = subprocess.run(['git', 'log', '-1', '--format=%ct'], cwd=plan.TREE, capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip() else int(time.time())


def chosen_turn(given: str | None, commit: int) -> str:
    """The part of the list of long tests: of NOVA_TEST_TURN, or the commit's."""
    if given in (None, ''):
        return str(commit % plan.TURNS)
    if given != 'all' and not (given.isdigit() and int(given) < plan.TURNS):
        raise SystemExit(f'NOVA_TEST_TURN is {given}: a number below {plan.TURNS}, or all.')
    return given


def of_files(part: plan.Part, files: collections.abc.Collection[str]) -> plan.Part:
    return dataclasses.replace(part, files=tuple(file for file in part.files if file in files))


def main(words: collections.abc.Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog='nova.tests.runner', description=__doc__.splitlines()[0])
    parser.add_argument('suites', nargs='+', choices=plan.SUITES)
    parser.add_argument('--long', action='store_true', help='a part of the list of long tests (NOVA_TEST_TURN)')
    parser.add_argument('--bill', action='store_true', help='the bill of materials, too')
    words = list(sys.argv[1:] if words is None else words)
    cut = words.index('--') if '--' in words else len(words)
    given, options = parser.parse_args(words[:cut]), words[cut + 1:]
    all_of_them = bool(os.environ.get('NOVA_TEST_LONG'))
    minutes = float(os.environ.get('NOVA_TEST_MINUTES') or (480 if all_of_them else 80))
    until = float(os.environ.get('NOVA_TEST_BEGAN') or time.time()) + minutes * 60
    commit = _commit_time()
    turn = chosen_turn(os.environ.get('NOVA_TEST_TURN'), commit)
    parts = plan.parts(given.suites, bill=given.bill)
    soft = None
    rows = plan.long_tests()
    if given.long:
        rows = rows if turn == 'all' else sorted(plan.turns(rows)[int(turn)])
        files = {row.file for row in rows}
        parts = [of_files(part, files) for part in parts if not part.command or part.suite == 'integration']
        soft = until - min(minutes * 60 / 4, 900)
        print(f'Part {turn} of {plan.TURNS} of the list of long tests:', *(row.name for row in rows), sep='\n  ',
              flush=True)
    named = {word for word in options if word.endswith('.py') and (plan.TREE / word).is_file()}
    if named:
        parts = [of_files(part, named) for part in parts if not part.command]
        options = [word for word in options if word not in named]
    parts = [part for part in parts if part.files or part.command]
    selection = 'all' if all_of_them or named else 'long' if given.long else 'ordinary'
    directory = pathlib.Path(tempfile.mkdtemp(prefix='nova-test.'))
    listed = directory / 'long.tsv'
    listed.write_text(''.join(f'{row.name}\t{row.seconds}\t{row.reason}\n' for row in rows))
    run = Run(parts, directory, cores=os.cpu_count() or 1, until=until, soft=soft, options=options,
              expected=plan.expected(rows=rows),
              environ={'NOVA_TEST_SELECT': selection, 'NOVA_TEST_TURN': turn, 'NOVA_TEST_COMMIT': str(commit),
                       'NOVA_TEST_LONG_LIST': str(listed)})
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, run.stop)
    try:
        run.run()
        passed = run.again() if not run.overdue else set()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if target := os.environ.get('NOVA_TEST_RECORD'):
        record(run, pathlib.Path(target))
    faults, told = verdict(run, passed, plan.unstable_tests(), datetime.date.fromtimestamp(commit))
    print('', *table(run), '', sep='\n')
    if selection == 'ordinary' and not options:
        out, whole = share_left_out(run)
        print(f'{out} of {whole} tests are outside of ordinary runs (nova/tests/long.tsv, NOVA_TEST_LONG=1).')
        if set(given.suites) == set(plan.SUITES) and out > plan.SHARE * whole:
            faults.append(f'more than {plan.SHARE:.0%} of the tests are outside of ordinary runs')
    if run.left:
        print(f'Left for another run, because the time was over: {shlex.join(sorted(set(run.left)))}')
    for line in told:
        print(line)
    for line in faults:
        print(f'Failed: {line}')
    if run.stopped:
        return 128 + signal.SIGTERM
    if faults:
        return 1
    print('All green.')
    return 0


if __name__ == '__main__':
    sys.exit(main())
