"""Runs next to tools/test.sh: says what its processes do, and ends them when they take too long.

usage: python3 tools/test_watch.py LOG PID --minutes N [--every 300]

Each process of pytest keeps a file in LOG.running (nova/tests/limits.py). Every few minutes they are shown, so that the
output of a run that is killed says what it was at. After so many minutes LOG.overdue is made, what runs is shown with
its stacks, and all that PID has begun gets SIGTERM, and SIGKILL after a minute. Standard library only.
"""
import argparse
import os
import pathlib
import signal
import time

GRACE_S = 60                # for fixtures, to end what they have started
STACK_LINES = 120


def alive(pid: int) -> bool:
    try:
        state = pathlib.Path('/proc', str(pid), 'stat').read_text()
    except OSError:
        return False
    return state.rpartition(')')[2].split()[0] != 'Z'


def _began_later(pid: int, file: pathlib.Path) -> bool:
    """Whether a process is younger than what is said of it: another one has got the number."""
    try:
        ticks = int(pathlib.Path('/proc', str(pid), 'stat').read_text().rpartition(')')[2].split()[19])
        up = float(pathlib.Path('/proc/uptime').read_text().split()[0])
        return time.time() - up + ticks / os.sysconf('SC_CLK_TCK') > file.stat().st_mtime + 1
    except OSError:
        return True


def running(directory: pathlib.Path) -> list[tuple[int, int, str]]:
    """Process, the time when it began with what it does, and that."""
    found = []
    for name in os.listdir(directory) if directory.exists() else ():
        words = (directory / name).read_text().split(' ', 1) if name.isdigit() and alive(int(name)) else []
        if words and _began_later(int(name), directory / name):
            continue
        if len(words) == 2:
            found.append((int(name), int(words[0]), words[1].strip()))
    return sorted(found, key=lambda row: row[1])


def shown(directory: pathlib.Path) -> None:
    now = time.time()
    for _, begun, text in running(directory):
        print(f'  {now - begun:5.0f} s  {text}', flush=True)


def stacks(directory: pathlib.Path) -> None:
    """What each process does, in its own words."""
    rows = running(directory)
    for pid, _, _ in rows:
        try:
            os.kill(pid, signal.SIGUSR2)
        except OSError:
            continue
    time.sleep(2)
    for pid, _, text in rows:
        file = directory / f'{pid}.stacks'
        lines = file.read_text().splitlines() if file.exists() else []
        print('\n'.join([f'---- {text}', *lines[:STACK_LINES]]), flush=True)


def descendants(pid: int) -> list[list[int]]:
    """Of this process, but for the watcher: its children, theirs, and so on."""
    parents: dict[int, int] = {}
    for directory in pathlib.Path('/proc').iterdir():
        if directory.name.isdigit() and int(directory.name) != os.getpid():
            try:
                parents[int(directory.name)] = int((directory / 'stat').read_text().rpartition(')')[2].split()[1])
            except OSError:
                continue
    found = [[pid]]
    while found[-1]:
        found.append([child for child, parent in parents.items() if parent in found[-1]])
    return found[1:]


def send(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue


def end(pid: int) -> None:
    """All that this process has begun, until it has ended itself; fixtures have a minute."""
    levels = descendants(pid)
    begun = sum(levels, [])
    send(levels[0], signal.SIGTERM)
    until = time.monotonic() + GRACE_S
    while time.monotonic() < until and any(map(alive, begun)) and alive(pid):
        time.sleep(1)
    send(begun, signal.SIGKILL)
    until = time.monotonic() + GRACE_S
    while alive(pid) and time.monotonic() < until:
        send(sum(descendants(pid), []), signal.SIGKILL)
        time.sleep(1)
    if alive(pid):
        os.kill(pid, signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('log')
    parser.add_argument('pid', type=int)
    parser.add_argument('--minutes', type=float, required=True)
    parser.add_argument('--every', type=float, default=300, metavar='SECONDS')
    given = parser.parse_args()
    directory = pathlib.Path(f'{given.log}.running')
    last = time.monotonic() + given.minutes * 60
    reported = time.monotonic()
    while alive(given.pid):
        time.sleep(1)
        if time.monotonic() >= last:
            break
        if time.monotonic() - reported >= given.every and running(directory):
            reported = time.monotonic()
            print(time.strftime('[%H:%M:%S] runs:'), flush=True)
            shown(directory)
    else:
        return
    pathlib.Path(f'{given.log}.overdue').touch()
    print(f'\n==== {given.minutes:g} minutes are over: what runs is ended', flush=True)
    shown(directory)
    stacks(directory)
    end(given.pid)


if __name__ == '__main__':
    main()
