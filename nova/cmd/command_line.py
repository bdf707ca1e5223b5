"""Shared parts of the command lines of the programs."""
import argparse
import itertools
import re
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn

from nova import version
from nova.cmd import tables

# {command: actions of the command, or a function for a command without actions}
Commands = Mapping[str, Mapping[str, Callable[..., Any]] | Callable[..., Any] | tuple[str, ...]]

_COUNT = re.compile('0*[1-9][0-9]{0,17}')
NOT_USABLE = 127             # exit code for an invalid --max-count


class Refused(Exception):
    """Invalid argument. Ends the command with an error message and a specific exit code."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


class Ended(Exception):
    """Ends the command with an exit code and a message on standard output, which deployment tools read."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence on standard error, with the exit code 2.

    ``commands`` maps the names of subcommands to their parsers.
    """

    def __init__(self, *words: Any, **options: Any) -> None:
        self.commands: dict[str, Parser] = {}
        super().__init__(*words, **options)

    def add_subparsers(self, **options: Any) -> Any:
        """Add subcommands, and keep their parsers in ``commands``."""
        found = super().add_subparsers(**options)
        self.commands = found.choices
        return found

    def error(self, message: str) -> NoReturn:
        self.exit(2, f'{self.prog}: {message}; see {self.prog} --help\n')


def show_version(parser: argparse.ArgumentParser) -> None:
    """Add the option --version to a parser."""
    parser.add_argument('--version', action='version', version=f'%(prog)s {version.VERSION}',
                        help='print the version of the product')


def choose_format(parser: argparse.ArgumentParser) -> None:
    """Add the option --format to a parser."""
    parser.add_argument('-f', '--format', choices=tables.FORMATS, default='table', dest='output_format',
                        help='; '.join(f'{name}: {text}' for name, text in tables.FORMATS.items())
                             + ' (default: %(default)s)')


def flag(text: str) -> dict[str, str]:
    """Return the argparse options of a flag."""
    return {'action': 'store_true', 'help': text}


def count(text: str | None) -> int | None:
    """Return the number of --max-count, or None if it was not given.

    :raises Refused: it is not a whole number above zero
    """
    if text is None:
        return None
    if not _COUNT.fullmatch(text):
        raise Refused('--max-count must be a whole number above zero.', NOT_USABLE)
    return int(text)


def parse(parser: argparse.ArgumentParser, words: list[str] | None, commands: Commands) -> tuple[
        argparse.Namespace, list[str]]:
    """Return (parsed arguments, options of nova.conf). If the command is missing, the error quotes other arguments.

    :param commands: see ``parted``; the parsers of the commands set ``function``
    """
    before, command = parted(sys.argv[1:] if words is None else words, commands)
    given, rest = parser.parse_known_args(command)
    if 'function' not in given:
        known = ', '.join(' '.join((name, *(() if callable(actions) else actions)))
                          for name, actions in commands.items())
        parser.error(f'no COMMAND in: {" ".join(rest)} (choose from {known})' if rest
                     else f'COMMAND is missing (choose from {known})')
    return given, before + rest


def parted(words: list[str], commands: Commands) -> tuple[list[str], list[str]]:
    """Return (options of nova.conf before the command, the rest).

    Deployment tools put such options before the command: ``--config-file nova.conf db sync``.

    :param commands: {command: its actions, or a function}
    """
    from nova import conf

    words = _joined(words, conf.valued_options())
    for number, (word, action) in enumerate(itertools.pairwise([*words, None])):
        known = commands.get(word or '')
        if known is not None and (callable(known) or action is None or action in known):
            return words[:number], words[number:]
    return [], words


def _joined(words: list[str], valued: Collection[str]) -> list[str]:
    """Join options with their values: ``--config-file=nova.conf``.

    Otherwise the value could be read as a command or as an argument of a command.
    """
    joined, rest = [], iter(words)
    for word in rest:
        value = next(rest, None) if word in valued else None
        joined.append(word if value is None else f'{word}={value}')
    return joined
