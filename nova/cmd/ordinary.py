"""Unprivileged daemons: root starts a daemon, which becomes an ordinary user and keeps a separate privileged process.

If the user lacks necessary rights, the daemon stays root and logs the reason.
"""
from __future__ import annotations

import contextlib
import fnmatch
import os
import pathlib
import pwd
import re
import sys
import tempfile
import typing
from collections.abc import Iterable

from oslo_utils import uuidutils

import nova
from nova import exception
from nova.runtime import host_identity
from nova.runtime import privileges
from nova.runtime import state_directory

if typing.TYPE_CHECKING:
    from oslo_config import cfg

# Files of each daemon in the state path. The user becomes the owner of these files, even if root has created them.
DAEMON_FILES = {
    'nova-all': ('services', 'driver', 'lock', 'clouds.yaml', 'keys', 'tls', 'CA', 'disk-keys', 'password-keys',
                 'objects', 'images', 'volumes', 'fake', 'backups', 'restored', 'disk-space', 'guest-records',
                 '*.sqlite', '*.sqlite-wal', '*.sqlite-shm', '*.sqlite-journal', '*.sqlite.spare'),
    'nova-compute': ('services', 'disk-space', 'guest-records'),
    'nova-network': ('services',),
}
# A state path that root owns may be given to the user if these files show that the daemon has used it as root.
MARKS = {'nova-all': {'driver', 'lock'}, 'nova-compute': {'services'}, 'nova-network': {'services'}}
# groups that may use libvirt's socket, /dev/kvm, and the sockets of guests' serial ports
GUEST_GROUPS = ('libvirt', 'kvm', 'libvirt-qemu')
FIRST_ORDINARY_PORT = '/proc/sys/net/ipv4/ip_unprivileged_port_start'
_NAMED_FILE = re.compile(r'\s*[\w-]+\s*=\s*(/[^\s,]+)\s*$')


def prepare(conf: cfg.ConfigOpts, binary: str) -> pwd.struct_passwd | None:
    """Give the daemon's files to its future user and return that user; None if the user does not change.

    root calls it before the log is opened and the first thread starts.
    """
    user = privileges.account(conf.privileges.user)
    if user is None:
        return None
    state = pathlib.Path(os.path.abspath(host_identity.state_path(conf)))
    reason = _why_root(conf, binary, state, user)
    if reason:
        print(f'{binary} stays root: {reason} When this is corrected, it runs as the user {user.pw_name}. '
              'See doc/source/admin/privileges.rst.', file=sys.stderr, flush=True)
        return None
    conf.set_override('state_path', str(state))          # keep this path: the default depends on the user
    _give_state(conf, binary, state, user)
    log = _log_file(conf, binary)
    if log:
        with contextlib.suppress(OSError):  # on failure, as for a symbolic link, the daemon opens the log as the user
            os.close(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o640))
    for path in filter(None, _files_to_give(conf, binary)):
        privileges.hand_over(path, user)
    return user


def _why_root(conf: cfg.ConfigOpts, binary: str, state: pathlib.Path, user: pwd.struct_passwd) -> str:
    """Return the reason why the daemon cannot run as the user, or ''."""
    if not _is_ours(state, binary, user):
        return f'{state} contains files that do not belong to this cloud.'
    guests = runs_guests(conf, binary)
    if guests and (reason := _no_lists(state) or _led_away(state / state_directory.INSTANCES, user)):
        return reason
    read = _files_to_read(conf, binary, state)           # root lists them
    return privileges.try_as(user, GUEST_GROUPS if guests else (), lambda: _obstacle(conf, binary, state, read, guests))


def _files_to_read(conf: cfg.ConfigOpts, binary: str, state: pathlib.Path) -> list[pathlib.Path]:
    """Return the configuration, code and state path, which the user must be able to read or traverse."""
    given = _files_to_give(conf, binary)
    named = [path for path in _named_files(conf) if path.is_file() and str(path) not in given]
    code = [pathlib.Path(place) for place in (nova.__file__, sys.prefix, *filter(os.path.isabs, sys.path))]
    return [*named, *(place for place in code if place.exists()), _existing(state)]


def _files_to_give(conf: cfg.ConfigOpts, binary: str) -> set[str | None]:
    """Return files outside of the state path that are given to the user."""
    return {_log_file(conf, binary), conf.messages.join_token_file}


def _give_state(conf: cfg.ConfigOpts, binary: str, state: pathlib.Path, user: pwd.struct_passwd) -> None:
    """Give the user the state path, the daemon's files in it, and the guests."""
    if not state.exists():
        state.mkdir(parents=True)
        state.chmod(state_directory.MODE)
    if state.stat().st_uid == 0:
        os.chown(state, user.pw_uid, user.pw_gid)
    for name in os.listdir(state):
        if _is_of_daemon(name, binary):
            privileges.hand_over(str(state / name), user)
    if binary == 'nova-all':
        for directory in filter(None, (conf.image.directory, conf.objectstore.path)):
            privileges.hand_over(directory, user)
        backups = conf.volume.backup_directory
        if backups and os.path.isdir(backups) and all(
                uuidutils.is_uuid_like(name.partition('.')[0]) for name in os.listdir(backups)):
            privileges.hand_over(backups, user)          # others may have files in it: then root's stay root's
    if runs_guests(conf, binary):
        from nova.virt.libvirt.local_disks import storage   # imported late: it needs solonova[libvirt]
        storage.take_over(str(state / state_directory.INSTANCES), user)
        if binary == 'nova-all':
            from nova.volume.store import files             # nova-compute has no volumes
            files.let_use(str(state / 'volumes'), user)


def become(conf: cfg.ConfigOpts, binary: str, user: pwd.struct_passwd, ports: typing.Iterable[int | None]) -> None:
    """Become the user permanently.

    :param ports: listening ports; the daemon keeps NET_BIND_SERVICE if a port is privileged
    """
    with open(FIRST_ORDINARY_PORT) as file:
        first = int(file.read())
    low = any(port and port < first for port in ports)
    privileges.become(user, groups=GUEST_GROUPS if runs_guests(conf, binary) else (),
                      capabilities=(privileges.NET_BIND_SERVICE,) if low else ())


def runs_guests(conf: cfg.ConfigOpts, binary: str) -> bool:
    """Return whether a daemon runs guests on a hypervisor, not with the fake driver."""
    return binary != 'nova-network' and conf.compute_driver != 'fake'


def guest_helper(conf: cfg.ConfigOpts, user: pwd.struct_passwd) -> privileges.Helper:
    """Return the privileged helper of a daemon that runs guests; the caller forks it."""
    from nova.virt.libvirt.local_disks import storage
    from nova.virt.libvirt.privileged import remote
    return remote.helper(conf, storage.instances_directory(conf.state_path), user.pw_uid)


# ---- checks: return an error message or '' --------------------------------------------------------

def _is_ours(state: pathlib.Path, binary: str, user: pwd.struct_passwd) -> bool:
    """Return whether the state path is missing, empty, owned by the user, or used by the daemon when it ran as root."""
    if not state.exists():
        return True
    status, names = state.stat(), set(os.listdir(state)) - {'lost+found'}
    return status.st_uid == user.pw_uid or status.st_uid == 0 and not status.st_mode & 0o022 and (
        not names or MARKS[binary] <= names or binary == 'nova-all' and 'lock' in names and all(
            _is_of_daemon(name, binary) for name in names))       # a first start failed before it wrote ``driver``


def _is_of_daemon(name: str, binary: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in DAEMON_FILES[binary])


def _led_away(instances: pathlib.Path, user: pwd.struct_passwd) -> str:
    """Return an error if the guests' directory is a link to another user's directory, which must keep its owner."""
    if instances.is_symlink() and instances.exists() and instances.stat().st_uid != user.pw_uid:
        return f'{instances} is a link to a directory that does not belong to that user.'
    return ''


def _no_lists(state: pathlib.Path) -> str:
    """Return an error if the file system lacks POSIX ACLs, which let the user read QEMU's disks."""
    from nova.disk_files import files
    try:
        with tempfile.NamedTemporaryFile(dir=_existing(state)) as file:
            files.let_read(file.fileno(), 0)
    except OSError as error:
        return f'the file system of {state} does not support access control lists ({error.strerror}).'
    return ''


def _obstacle(conf: cfg.ConfigOpts, binary: str, state: pathlib.Path, read: Iterable[pathlib.Path],
              guests: bool) -> str:
    """Return the error for the first operation that the user may not perform, or ''; runs in a process of that user.

    :param read: paths of files to read, and of directories to traverse
    """
    for path in read:
        if not os.access(path, os.X_OK if os.path.isdir(path) else os.R_OK):
            return f'that user cannot read {path}.'
    log = _log_file(conf, binary)
    if log and not os.access(os.path.dirname(log) or '.', os.W_OK):
        return f'that user cannot write {os.path.dirname(log)}.'
    if binary == 'nova-all':
        for options in (conf.database, conf.api_database):
            place = pathlib.Path((options.connection or '').removeprefix('sqlite:///')).parent
            if (options.connection or '').startswith('sqlite:///') and not (
                    place.is_relative_to(state) or os.access(place, os.W_OK)):
                return f'that user cannot write {place}.'
    if guests:
        from nova.virt.libvirt import host
        return host.refusal(host.address(conf))
    return ''


def _named_files(conf: cfg.ConfigOpts) -> list[pathlib.Path]:
    """Return the configuration files, and the files that options name: keys, certificates, pipelines."""
    from nova import policies
    from nova.policies import paths as policy_paths
    found = [pathlib.Path(name) for name in (*(conf.config_file or ()), conf.find_file(conf.http.paste_config)) if name]
    for directory in conf.config_dir or ():
        found += sorted(pathlib.Path(directory).glob('*.conf'))
    for service in policies.SERVICES:
        with contextlib.suppress(exception.InvalidInput):          # the daemon reports it
            found += map(pathlib.Path, policy_paths.paths(conf, service))
    for path in list(found):
        with contextlib.suppress(OSError):
            lines = path.read_text(errors='replace').splitlines()
            found += [pathlib.Path(match[1]) for match in map(_NAMED_FILE.match, lines) if match]
    return found


def _log_file(conf: cfg.ConfigOpts, binary: str) -> str | None:
    if not (conf.log_file or conf.log_dir):
        return None
    return os.path.join(conf.log_dir or '', conf.log_file or f'{binary}.log')


def _existing(path: pathlib.Path) -> pathlib.Path:
    return next(place for place in (path, *path.parents) if place.exists())
