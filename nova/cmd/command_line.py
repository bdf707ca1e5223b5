"""What the command lines of nova-manage and nova-status have in common."""
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
    """A value cannot be used; ends the command with this sentence and an exit code of its own."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


class Ended(Exception):
    """Ends the command with this sentence on standard output, where tools of deployments look for it, and an exit code.
    """

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


def flag(text: str) -> dict[str, str]:
    """An option of a command that is there or not."""
    return {'action': 'store_true', 'help': text}


def count(text: str | None) -> int | None:
    """The number that --max-count gives; None: it was not given.

    :raises Refused: it is no whole number above zero
    """
    if text is None:
        return None
    if not _COUNT.fullmatch(text):
        raise Refused('--max-count must be a whole number above zero.', NOT_USABLE)
    return int(text)


def parse(parser: argparse.ArgumentParser, words: list[str] | None, commands: Collection[str]) -> tuple[
        argparse.Namespace, list[str]]:
    """(what was given, options of nova.conf): without a command, the refusal names the words that were there instead.

    :param commands: what there is; their parsers set ``function``
    """
    given, rest = parser.parse_known_args(words)
    if 'function' not in given:
        known = ', '.join(commands)
        parser.error(f'no COMMAND in: {" ".join(rest)} (choose from {known})' if rest
                     else f'COMMAND is missing (choose from {known})')
    return given, rest


def parted(words: list[str], commands: Commands) -> tuple[list[str], list[str]]:
    """(options of nova.conf before the command, the rest): other tools write ``--config-file nova.conf db sync``.

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
    """``--config-file nova.conf`` as one word, lest a command takes the value for an argument of its own."""
    joined, rest = [], iter(words)
    for word in rest:
        value = next(rest, None) if word in valued else None
        joined.append(word if value is None else f'{word}={value}')
    return joined
