"""nova-rootwrap CONFIG COMMAND [WORD...]: accept commands that older deployments run as root through sudo.

COMMAND is not run. Instead, the privileged part of nova-compute checks the arguments and performs the same operation.
Unknown commands are refused, see nova/virt/libvirt/privileged/rootwrap.py. nova-compute does not use this program: it
runs the privileged part as a process.

Exit codes are those of rootwrap: 0: success; 1: the operation failed; 96: unknown command; 97: the configuration is
wrong; 98: no command; 99: refused. As with all programs, 2: unknown option.
"""
import base64
import configparser
import json
import os
import pathlib
import pwd
import stat
import sys
from collections.abc import Sequence

from nova import exception
from nova import version

FAILED, BAD_OPTION, UNKNOWN, BAD_CONFIG, NO_COMMAND, REFUSED = 1, 2, 96, 97, 98, 99
USAGE = 'usage: nova-rootwrap CONFIG COMMAND [WORD...]'
KIND = 'CommandFilter'
CONSOLE = 'guest.console'
MAKES = {'qemu_img.create': 'path', 'qemu_img.convert': 'target'}   # operation -> argument with the path of a new file


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ['--version']:
        print(f'nova-rootwrap {version.VERSION}')
        return 0
    if given and given[0].startswith('-'):
        return _end(BAD_OPTION, f'unrecognized arguments: {given[0]}; {USAGE}')
    if len(given) < 2:
        return _end(NO_COMMAND, USAGE)
    try:
        names, files = allowed(given[0]), _read(given[0])['DEFAULT'].get('config_file')
    except (OSError, ValueError, configparser.Error) as error:
        return _end(BAD_CONFIG, f'{given[0]}: {error}')
    if os.path.basename(given[1]) not in names:
        return _end(REFUSED, f'No filter allows {os.path.basename(given[1])[:40]}.')
    return _run(given[1:], [files] if files else None)


def allowed(path: str) -> set[str]:
    """Return the commands that the filters of a configuration name.

    :raises OSError, ValueError, configparser.Error: a file is missing, is writable by other users, or has unknown
        content
    """
    found = set()
    for directory in _read(path)['DEFAULT'].get('filters_path', '').split(','):
        _check(pathlib.Path(directory.strip()))
        for file in sorted(pathlib.Path(directory.strip()).glob('*.filters')):
            for name, value in _read(str(file))['Filters'].items():
                words = [word.strip() for word in value.split(',')]
                if words[0] != KIND or words[2:] != ['root'] or not words[1]:
                    raise ValueError(f'{file}: {name} must have the form: {KIND}, COMMAND, root')
                found.add(os.path.basename(words[1]))
    return found


def _read(path: str) -> configparser.ConfigParser:
    _check(pathlib.Path(path))
    parser = configparser.ConfigParser(interpolation=None)
    with open(path) as file:
        parser.read_file(file)
    if path.endswith('.filters') and not parser.has_section('Filters'):
        parser.add_section('Filters')
    return parser


def _check(path: pathlib.Path) -> None:
    """Check the owner and the mode of a file.

    :raises ValueError: another user may write it
    """
    found = path.stat()
    if found.st_uid != 0 or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError(f'{path} must belong to root and must not be writable by others.')


def _run(words: Sequence[str], files: list[str] | None) -> int:
    """Run the operation of a command with the rights of the privileged part.

    :param files: configuration files of nova-compute; None: the default files
    """
    from nova import conf as nova_conf
    from nova.runtime import privileges
    from nova.virt.libvirt.local_disks import storage
    from nova.virt.libvirt.privileged import remote
    from nova.virt.libvirt.privileged import rootwrap

    conf = nova_conf.new(files=files)
    directory, user = storage.instances_directory(conf.state_path), _caller()
    try:
        name, values = rootwrap.step(words, (user.pw_name, str(user.pw_uid)), directory)
    except ValueError as error:
        return _end(REFUSED, str(error))
    operations = remote.operations(conf, directory, user.pw_uid)
    if name not in operations:
        return _end(UNKNOWN, f'{name} is not a step of this host; qemu-img needs [libvirt] sandbox_qemu_img.')
    try:
        if name in MAKES:
            _make(values[MAKES[name]], user)
        privileges.limit(remote.capabilities(conf))
        if name.startswith('qemu_img.'):
            operations['qemu_img.prepare']()
        _show(name, operations[name](**values))
    except (ValueError, TypeError) as error:
        return _end(REFUSED, str(error))
    except (exception.NovaException, OSError) as error:
        return _end(FAILED, str(error))
    return 0


def _caller() -> pwd.struct_passwd:
    """Return the user who called sudo; root without sudo."""
    number = os.environ.get('SUDO_UID', '0')
    return pwd.getpwuid(int(number) if number.isascii() and number.isdecimal() else 0)


def _make(path: str, user: pwd.struct_passwd) -> None:
    """Create an empty file with the rights of the caller, who owns it."""
    os.setegid(user.pw_gid)
    os.seteuid(user.pw_uid)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640))
    finally:
        os.seteuid(0)
        os.setegid(0)


def _show(name: str, answer: object) -> None:
    if name == CONSOLE:
        sys.stdout.buffer.write(base64.b64decode(str(answer)))
        sys.stdout.buffer.flush()
    elif answer is not None:
        print(json.dumps(answer))


def _end(code: int, sentence: str) -> int:
    print(f'nova-rootwrap: {sentence}', file=sys.stderr)
    return code


if __name__ == '__main__':
    sys.exit(main())
