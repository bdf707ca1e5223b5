#!/usr/bin/env python3
"""Runs tools/test.sh on a blank root of a Debian release, with the release's own Python and packages.

usage: tools/proofs/release.py debian-12|debian-13 [--keep] [arguments of tools/test.sh]      as root

The root is made once (debootstrap, in NOVA_TEST_ROOTS) and copied. The run has its own mounts, processes, network
namespace and /run, and a clone of this tree's last commit. The whole list of long tests runs (NOVA_TEST_TURN=all),
unless the caller's environment says another turn. Needs about 12 GB in TMPDIR, which must not be an overlay.

Prints what tools/test.sh prints, then the release and the seconds that the run took; exits as tools/test.sh does.
"""
from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE))

from nova.tests.integration import fresh_machine

# In the namespaces: the root becomes /, and programs find what a machine has. $1: the root.
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
mkdir -p "$1/var/cache/nova-test-roots"
mount --bind "$2" "$1/var/cache/nova-test-roots"
cd "$1"
pivot_root . mnt
umount -l /mnt
cd /root/nova
shift 2
exec "$@"
'''
PASSED_ON = ('NOVA_TEST_', 'PIP_DEFAULT_TIMEOUT')


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('release', choices=sorted(fresh_machine.RELEASES))
    parser.add_argument('--keep', action='store_true', help='keep the root, and print where it is')
    given, arguments = parser.parse_known_args()
    began = time.monotonic()
    root = pathlib.Path(tempfile.mkdtemp(prefix=f'{given.release}-'))
    root.chmod(0o755)
    try:
        subprocess.run(['cp', '-a', f'{fresh_machine.base(given.release)}/.', root], check=True)
        shutil.copy('/etc/resolv.conf', root / 'etc/resolv.conf')
        (root / 'etc/hostname').write_text(f'{given.release}\n')
        (root / 'etc/hosts').write_text(f'127.0.0.1 localhost {given.release}\n::1 localhost\n')
        subprocess.run(['git', 'clone', '--quiet', '--no-hardlinks', TREE, root / 'root/nova'], check=True)
        namespace = f'nova-{given.release}-{os.getpid()}'
        with fresh_machine.wired(namespace):
            code = run(root, namespace, ['./tools/test.sh', *arguments])
            if not arguments:
                code = run(root, namespace, ['./tools/test.sh', 'long']) or code
    finally:
        if given.keep:
            print(f'The root is kept: {root}')
        else:
            subprocess.run(['rm', '-rf', '--one-file-system', root], check=False)
    print(f'{given.release}: {"passed" if code == 0 else f"failed with {code}"} after '
          f'{time.monotonic() - began:.0f} s', flush=True)
    return code


def run(root: pathlib.Path, namespace: str, command: list[str]) -> int:
    """Run a command in the root; return its exit code.

    :param namespace: name of the network namespace that it gets
    """
    environ = {'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': '/root',
               'LANG': 'C.UTF-8', 'NOVA_TEST_TURN': 'all',
               **{name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}}
    environ.pop('NOVA_TEST_ROOTS', None)
    return subprocess.run(
        ['nsenter', f'--net=/run/netns/{namespace}', 'unshare', '--mount', '--pid', '--ipc', '--uts', '--fork',
         '--kill-child', 'sh', '-c', ENTER, 'sh', root, fresh_machine.CACHE, *command],
        env=environ, stdin=subprocess.DEVNULL).returncode


if __name__ == '__main__':
    sys.exit(main())
