"""Print tables and sentences of commands to an operator's terminal; what users chose reaches it as text alone."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
import contextlib
import sys
from typing import Any
import unicodedata


def escaped(text: str, keep: str = '') -> str:
    """A text with an escape in place of each character that is none to look at.

    These are control characters, with which a terminal is commanded, and those that change the order or the look of
    others: marks of bidirectional text, characters without width, line and paragraph separators.

    :param keep: characters that stay
    """
    if text.isprintable():
        return text
    return ''.join(char if char in keep or char.isprintable() or unicodedata.category(char) == 'Zs'
                   else _escape(ord(char)) for char in text)


def _escape(number: int) -> str:
    return f'\\x{number:02x}' if number < 0x100 else f'\\u{number:04x}' if number < 0x10000 else f'\\U{number:08x}'


class _Escaping:
    """A text stream that writes escapes; ends of lines and tabs, which commands print themselves, stay."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(escaped(text, '\n\t').replace('\\x0d\n', '\r\n'))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def escaping() -> Iterator[None]:
    """Let all that is printed pass through ``escaped``; a command that is broken off may have closed its output."""
    names = ('stdout', 'stderr')
    streams = [getattr(sys, name) for name in names]
    for name, stream in zip(names, streams):
        setattr(sys, name, stream and _Escaping(stream))
    try:
        yield
    finally:
        for name, stream in zip(names, streams):
            setattr(sys, name, stream if getattr(sys, name) is not None else None)


def _cell(value: Any) -> str:
    return escaped(str(value))


def print_table(header: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """A table of texts; None is shown as a dash."""
    table = [header, *([_cell(value) if value is not None else '-' for value in row] for row in rows)]
    widths = _widths(table)
    for row in table:
        print('  '.join(value.ljust(width) for value, width in zip(row, widths)).rstrip())


def print_framed(header: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """A table with a frame: what scripts around these commands cut their columns from."""
    table = [[_cell(value) for value in row] for row in (header, *rows)]
    widths = _widths(table)
    frame = '+' + '+'.join('-' * (width + 2) for width in widths) + '+'
    print(frame)
    for number, row in enumerate(table):
        print('| ' + ' | '.join(value.ljust(width) for value, width in zip(row, widths)) + ' |')
        if number == 0:
            print(frame)
    print(frame)


def _widths(table: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*table)]
