"""Ceph pool, accessed by Ceph's command line tools."""
import errno
import json
import re
import subprocess
import time
import typing

from oslo_config.cfg import ConfigOpts

from nova import exception

COMMAND_TIMEOUT_S = 60  # timeout in seconds of commands that move no data; an unreachable Ceph would block forever
REMOVE_TIMEOUT_S = 40  # timeout in seconds to remove an image: Ceph drops the watch of a dead client after 30 s
POLL_INTERVAL_S = 1
VERSION_ONE = 'v1'
LOOK = 'look at a disk'
FENCED_S = 365 * 86400           # seconds that a client stays blocked: long, as its random address is never reused


class Failed(exception.VirtError):
    """Error of a Ceph command with the exit status ``code``."""

    code = 0


Parent = typing.TypedDict('Parent', {'pool': str, 'image': str, 'snapshot': str})
# Fields that are read from rbd's description of an image. The time is local: "Mon Nov 23 11:38:41 2026". Only a clone
# has a parent.
ImageInfo = typing.TypedDict('ImageInfo', {'size': int, 'create_timestamp': str,
                                           'parent': typing.NotRequired[Parent]})


class Pool:
    """Commands on a pool.

    :param name: name of the pool
    :param conf: path of Ceph's configuration file
    :param user: Ceph user without "client."; None: the default of Ceph's configuration
    :param data_s: timeout of an import, an export or a rollback in seconds
    """

    def __init__(self, name: str, conf: str, user: str | None, data_s: float) -> None:
        self.name, self._conf, self._user, self._data_s = name, conf, user, data_s
        self._access = ['-c', conf, *(['-n', f'client.{user}'] if user else [])]

    def images(self) -> list[str]:
        return list(json.loads(self.rbd('list the disks', 'ls', '--format', 'json')))

    def info(self, image: str) -> ImageInfo | None:
        """Return rbd's description of an image or snapshot (image@snapshot), or None if it does not exist."""
        found = self._existing('info', '--format', 'json', image)
        return None if found is None else json.loads(found)

    def most_exported(self, image: str) -> int:
        """Return an upper bound in bytes of the space that an export of an image, or of its snapshots, occupies.

        :raises VirtError: there is no such image
        """
        info = self.info(image)
        if info is None:
            raise _failed(LOOK, 'the pool does not have it')
        names = [image]
        if parent := info.get('parent'):
            names.append(f'{parent["pool"]}/{parent["image"]}@{parent["snapshot"]}')
        found = [json.loads(self.rbd(LOOK, 'du', '--format', 'json', name, data=True)) for name in names]
        return min(info['size'], sum(int(each['used_size']) for listed in found for each in listed['images']))

    def metadata(self, image: str, key: str) -> str | None:
        """Return a metadata value of an image, or None if the image or the value does not exist."""
        found = self._existing('image-meta', 'get', image, key)
        return None if found is None else found.rstrip('\n')

    def _existing(self, *arguments: str) -> str | None:
        try:
            return self.rbd(LOOK, *arguments)
        except Failed as error:
            if error.code != errno.ENOENT:
                raise
            return None

    def remove(self, image: str) -> None:
        """Remove an image with its snapshots; no error if it does not exist.

        :raises VirtError: the image is open, or has clones
        """
        end = time.monotonic() + REMOVE_TIMEOUT_S
        while True:
            try:
                self.rbd('remove a disk', 'snap', 'purge', '--no-progress', image)
                self.rbd('remove a disk', 'rm', '--no-progress', image)
                return
            except Failed as error:
                if error.code == errno.ENOENT:
                    return
                if error.code != errno.EBUSY or time.monotonic() > end:
                    raise
            time.sleep(POLL_INTERVAL_S)             # rbd fails with EBUSY until the watch of a killed QEMU expires

    # ---- clients, for images in any pool ----

    def watchers(self, image: str, timeout: float = COMMAND_TIMEOUT_S) -> set[str]:
        """Return the addresses of the clients that have renewed a watch on an image within the last 30 s.

        :param image: pool/image
        """
        text = self._run(LOOK, ['rbd', *self._access, 'status', '--format', 'json', image], timeout)
        return {str(each['address']) for each in json.loads(text)['watchers']}

    def clients(self, image: str) -> set[str]:
        """Return the watchers and the clients that hold a lock without a watch.

        :param image: pool/image
        """
        locks = json.loads(self._run(LOOK, ['rbd', *self._access, 'lock', 'ls', '--format', 'json', image]))
        return self.watchers(image) | {str(each['address']) for each in locks}

    def shut_out(self, address: str, seconds: int = FENCED_S) -> None:
        """Add a client to Ceph's blocklist.

        Clients that connect later get the OSD map with the new entry and pass it to the OSDs, which then refuse the
        blocked client.
        """
        self._run('block a Ceph client', ['ceph', *self._access, 'osd', 'blocklist', 'add', address, str(seconds)])

    def is_monitored_by(self, hosts: typing.Collection[str]) -> bool:
        """Return whether one of the hosts is a monitor of the configured Ceph cluster.

        :param hosts: monitor addresses of a volume; if the connection has none, the configured cluster is assumed
        """
        return not hosts or bool({str(host).strip('[]') for host in hosts} & {host for host, _port in self.monitors()})

    def try_rbd(self, accepted: int, operation: str, *arguments: str, data: bool = False) -> bool:
        """Run ``rbd``; return True for success and False for the error ``accepted``; raise for other errors."""
        try:
            self.rbd(operation, *arguments, data=data)
        except Failed as error:
            if error.code != accepted:
                raise
            return False
        return True

    def monitors(self) -> list[list[typing.Any]]:
        """Return [[address, port]] of the monitors for QEMU."""
        found = json.loads(self._run('find the monitors', ['ceph', *self._access, 'mon', 'dump', '--format', 'json']))
        return [address for each in found['mons'] for address in _address(each['public_addrs']['addrvec'])]

    def room(self) -> tuple[int, int]:
        """Return (used, free) bytes, each counted once despite replication."""
        found = json.loads(self._run('measure the pool', ['ceph', *self._access, 'df', '--format', 'json']))
        for each in found['pools']:
            if each['name'] == self.name:
                return int(each['stats']['stored']), int(each['stats']['max_avail'])
        raise _failed('measure the pool', f'there is no pool {self.name}')

    def rbd(self, operation: str, *arguments: str, data: bool = False) -> str:
        """Run rbd and return its output.

        :param data: the command moves the data of a whole disk
        :raises VirtError: the command failed or timed out
        """
        return self._run(operation, ['rbd', *self._access, '-p', self.name, *arguments],
                         self._data_s if data else COMMAND_TIMEOUT_S)

    def _run(self, operation: str, command: list[str], timeout: float = COMMAND_TIMEOUT_S) -> str:
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise _failed(operation, f'Ceph did not answer within {timeout:.0f} seconds') from None
        except OSError:
            raise _failed(operation, f'the program {command[0]} cannot be run on this host') from None
        if done.returncode:
            raise _failed(operation, last_line(done.stderr, command[0]), done.returncode)
        return done.stdout


def configured(options: ConfigOpts.GroupAttr) -> Pool:
    """Return the Pool of [libvirt] images_rbd_pool; methods for images of other pools do not need this pool."""
    return Pool(options.images_rbd_pool, options.images_rbd_ceph_conf, options.rbd_user, options.qemu_img_timeout)


def last_line(text: str, program: str) -> str:
    """Return the last error line of a Ceph command without its timestamp, thread id and paths of this host."""
    lines = [line for line in text.strip().splitlines() if line.strip()] or [f'{program} failed']
    line = re.sub(r'^\S+T\S+ [0-9a-f]+ +-?[0-9]+ ', '', lines[-1])
    return re.sub(r'/[^\s\'",:]*/', '', line)[:200]


def _address(known: list[dict[str, str]]) -> list[list[typing.Any]]:
    """Return the address of one monitor, preferably of protocol v1, because libvirt's XML has no protocol version."""
    for each in sorted(known, key=lambda each: each['type'] != VERSION_ONE)[:1]:
        host, _colon, port = each['addr'].rpartition(':')
        return [[host.strip('[]'), int(port)]]
    return []


def _failed(operation: str, reason: str, code: int = 0) -> Failed:
    made = Failed(operation=operation, reason=reason)
    made.code = code
    return made
