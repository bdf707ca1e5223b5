"""Shared parts of the command lines of nova-manage and nova-status."""
from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

# {command: its actions, or a function}
Commands = Mapping[str, Mapping[str, Callable[..., Any]] | Callable[..., Any] | tuple[str, ...]]

_COUNT = re.compile('0*[1-9][0-9]{0,17}')
NOT_USABLE = 127             # exit code: --max-count is no number above zero


class Refused(Exception):
    """Invalid argument. Ends the command with an error message and a specific exit code."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


class Ended(Exception):
    """Ends the command with a message on standard output, where deployment tools read it, and an exit code."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


def flag(text: str) -> dict[str, str]:
    """Return the argparse options of a flag."""
    return {'action': 'store_true', 'help': text}


def count(text: str | None) -> int | None:
    """Return the number of --max-count, or None if it was not given.

    :raises Refused: it is no whole number above zero
    """
    if text is None:
        return None
    if not _COUNT.fullmatch(text):
        raise Refused('--max-count must be a whole number above zero.', NOT_USABLE)
    return int(text)


def parse(parser: argparse.ArgumentParser, words: list[str] | None, commands: Collection[str]) -> tuple[
        argparse.Namespace, list[str]]:
    """Return (parsed arguments, options of nova.conf). Without a valid command, the error names the given words.

    :param commands: names of the commands; their parsers set ``function``
    """
    given, rest = parser.parse_known_args(words)
    if 'function' not in given:
        known = ', '.join(commands)
        parser.error(f'no COMMAND in: {" ".join(rest)} (choose from {known})' if rest
                     else f'COMMAND is missing (choose from {known})')
    return given, rest


def parted(words: list[str], commands: Commands) -> tuple[list[str], list[str]]:
    """Return (options of nova.conf before the command, the rest): tools write ``--config-file nova.conf db sync``.

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
    """Join ``--config-file nova.conf`` to one word, so that no command takes the value for one of its arguments."""
    joined, rest = [], iter(words)
    for word in rest:
        value = next(rest, None) if word in valued else None
        joined.append(word if value is None else f'{word}={value}')
    return joined
