#!/usr/bin/env python3
"""Runs a command on a blank root of a Debian release, with the release's own Python and packages.

usage: tools/debian_root.py [--keep] [--out DIRECTORY] debian-12|debian-13 COMMAND...      as root

The root is made once (debootstrap, in NOVA_TEST_ROOTS) and copied. The command runs in a clone of this tree's last
commit, with its own mounts, processes, network namespace and /run. DIRECTORY is /root/out there. TMPDIR must not be an
overlay. Exits as the command does.
"""
from __future__ import annotations

import argparse
import collections.abc
import contextlib
import functools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TREE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TREE))

from nova.tests.integration import fresh_machine

# In the namespaces: the root becomes /, and programs find what a machine has. $1: the root; $2, $3: the directories of
# this machine that it sees.
ENTER = '''
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount --rbind /dev "$1/dev"
mount -t sysfs sysfs "$1/sys"
mount --rbind /sys/fs/cgroup "$1/sys/fs/cgroup"
mount -t proc proc "$1/proc"
mount -t tmpfs -o mode=755 tmpfs "$1/run"
mkdir -m 1777 "$1/run/lock"
mkdir -p "$1/var/cache/nova-test-roots" "$1/root/out"
mount --bind "$2" "$1/var/cache/nova-test-roots"
[ -z "$3" ] || mount --bind "$3" "$1/root/out"
cd "$1"
pivot_root . mnt
umount -l /mnt
cd /root/nova
shift 3
exec "$@"
'''
PASSED_ON = ('NOVA_TEST_', 'PIP_DEFAULT_TIMEOUT', 'SOURCE_DATE_EPOCH')
Run = collections.abc.Callable[[collections.abc.Sequence[str]], int]


@contextlib.contextmanager
def entered(release: str, *, keep: bool = False, out: pathlib.Path | None = None,
            environ: collections.abc.Mapping[str, str] | None = None) -> collections.abc.Iterator[Run]:
    """A function that runs a command in a new root and returns its exit code."""
    root = pathlib.Path(tempfile.mkdtemp(prefix=f'{release}-'))
    root.chmod(0o755)
    try:
        subprocess.run(['cp', '-a', f'{fresh_machine.base(release)}/.', root], check=True)
        shutil.copy('/etc/resolv.conf', root / 'etc/resolv.conf')
        (root / 'etc/hostname').write_text(f'{release}\n')
        (root / 'etc/hosts').write_text(f'127.0.0.1 localhost {release}\n::1 localhost\n')
        subprocess.run(['git', 'clone', '--quiet', '--no-hardlinks', TREE, root / 'root/nova'], check=True)
        namespace = f'nova-{release}-{os.getpid()}'
        with fresh_machine.wired(namespace):
            yield functools.partial(_run, root, namespace, str(out or ''), environ or {})
    finally:
        if keep:
            print(f'The root is kept: {root}')
        else:
            subprocess.run(['rm', '-rf', '--one-file-system', root], check=False)


def _run(root: pathlib.Path, namespace: str, out: str, more: collections.abc.Mapping[str, str],
         command: collections.abc.Sequence[str]) -> int:
    environ = {'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': '/root',
               'LANG': 'C.UTF-8', **more,
               **{name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}}
    environ.pop('NOVA_TEST_ROOTS', None)
    return subprocess.run(
        ['nsenter', f'--net=/run/netns/{namespace}', 'unshare', '--mount', '--pid', '--ipc', '--uts', '--fork',
         '--kill-child', 'sh', '-c', ENTER, 'sh', root, fresh_machine.CACHE, out, *command],
        env=environ, stdin=subprocess.DEVNULL).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('release', choices=sorted(fresh_machine.RELEASES))
    parser.add_argument('--keep', action='store_true', help='keep the root, and print where it is')
    parser.add_argument('--out', type=pathlib.Path, help='a directory that the command sees as /root/out')
    parser.add_argument('command', nargs=argparse.REMAINDER, metavar='COMMAND')
    given = parser.parse_args()
    with entered(given.release, keep=given.keep, out=given.out) as run:
        return run(given.command)


if __name__ == '__main__':
    sys.exit(main())
