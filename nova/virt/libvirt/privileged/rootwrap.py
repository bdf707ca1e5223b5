"""Conversion of old rootwrap commands to operations of the privileged helper process (remote.py).

==========================================================================  ================================
Command                                                                     Operation
==========================================================================  ================================
``qemu-img info [--output=json] [-U] -f FORMAT PATH``                       ``qemu_img.info``
``qemu-img create -f FORMAT [-b FILE -F FORMAT] PATH SIZE``                 ``qemu_img.create``
``qemu-img create -f FORMAT -o backing_file=FILE,backing_fmt=FORMAT …``     ``qemu_img.create``
``qemu-img resize -f FORMAT PATH SIZE``                                     ``qemu_img.resize``
``qemu-img rebase -f FORMAT -b FILE -F FORMAT PATH``                        ``qemu_img.rebase``
``qemu-img convert -f FORMAT -O FORMAT PATH TARGET``                        ``qemu_img.convert``
``cat INSTANCES/UUID/console.log``                                          ``guest.console``
``chown USER PATH``, where USER is the calling user                         ``guest.let_read``
==========================================================================  ================================

The helper validates the arguments. Pure functions.
"""
import getopt
import os
import re
import typing
from collections.abc import Callable, Sequence

Step = tuple[str, dict[str, typing.Any]]
CONSOLE_LOG = 'console.log'
UNITS = {'': 1, 'b': 1, 'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30, 't': 1 << 40}
_SIZE = re.compile(r'([0-9]{1,19})([bkmgt]?)\Z', re.IGNORECASE)
_LONG = ['output=', 'force-share']


def step(words: Sequence[str], users: Sequence[str], directory: str) -> Step:
    """Return the (operation, arguments) of a command.

    :param words: arguments of the command
    :param users: name and id of the calling user
    :param directory: directory of the guests
    :raises ValueError: the command is unsupported; the message is a sentence
    """
    name = os.path.basename(words[0]) if words else ''
    if name not in COMMANDS:
        raise ValueError(f'{name[:40]!r} is not a supported command; the commands are '
                         f'{", ".join(sorted(COMMANDS))}.')
    return COMMANDS[name](list(words[1:]), users, directory)


def _cat(words: list[str], users: Sequence[str], directory: str) -> Step:
    uuid, name = os.path.split(os.path.relpath(words[0], directory)) if len(words) == 1 else ('', '')
    if name != CONSOLE_LOG:
        raise ValueError(f'cat is only supported for {directory}/UUID/{CONSOLE_LOG}.')
    return 'guest.console', {'uuid': uuid}


def _chown(words: list[str], users: Sequence[str], directory: str) -> Step:
    if len(words) != 2 or words[0] not in users:
        raise ValueError('chown takes the calling user and one disk, to which that user gets read access.')
    return 'guest.let_read', {'path': words[1]}


def _qemu_img(words: list[str], users: Sequence[str], directory: str) -> Step:
    kind = words[0] if words else ''
    if kind not in _IMAGES:
        raise ValueError(f'qemu-img {kind[:40]} is not supported; the subcommands are {", ".join(sorted(_IMAGES))}.')
    count, make = _IMAGES[kind]
    try:
        options, rest = getopt.gnu_getopt(words[1:], 'f:O:b:F:o:U', _LONG)
    except getopt.GetoptError as error:
        raise ValueError(f'qemu-img {kind}: {error}.') from None
    found = dict(options)
    for pair in filter(None, found.pop('-o', '').split(',')):
        key, _, value = pair.partition('=')
        if key not in ('backing_file', 'backing_fmt'):
            raise ValueError(f'qemu-img {kind}: the option {key[:40]} is not supported.')
        found[{'backing_file': '-b', 'backing_fmt': '-F'}[key]] = value
    if len(rest) != count or '-f' not in found or found.get('--output', 'json') != 'json':
        raise ValueError(f'qemu-img {kind} takes {count} words, -f with a format, which is never guessed, and '
                         '--output=json.')
    return f'qemu_img.{kind}', {'path': rest[0], 'disk_format': found['-f'], **make(found, rest)}


def _backing(found: dict[str, str]) -> dict[str, typing.Any]:
    return {'backing_file': found.get('-b'), 'backing_format': found.get('-F')}


def _bytes(text: str) -> int:
    match = _SIZE.match(text)
    if match is None:
        raise ValueError(f'{text[:40]!r} is not a size.')
    return int(match[1]) * UNITS[match[2].lower()]


# {qemu-img subcommand: (number of arguments, function that returns the values other than path and format)}
_IMAGES: dict[str, tuple[int, Callable[[dict[str, str], list[str]], dict[str, typing.Any]]]] = {
    'info': (1, lambda found, rest: {}),
    'create': (2, lambda found, rest: {'size': _bytes(rest[1]), **_backing(found)}),
    'resize': (2, lambda found, rest: {'size': _bytes(rest[1]), 'backing_file': None}),
    'rebase': (1, lambda found, rest: _backing(found)),
    'convert': (2, lambda found, rest: {'target': rest[1], 'target_format': found.get('-O'), 'backing_file': None}),
}
COMMANDS: dict[str, Callable[[list[str], Sequence[str], str], Step]] = {
    'cat': _cat, 'chown': _chown, 'qemu-img': _qemu_img}
