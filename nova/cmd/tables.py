"""Print tables and sentences of commands to a terminal, with control characters of user input escaped."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
import contextlib
import sys
from typing import Any, TextIO
import unicodedata


def escaped(text: str, keep: str = '') -> str:
    """Return a text with an escape for each unprintable character.

    Control characters control the terminal. Marks of bidirectional text, characters without width, and line and
    paragraph separators change the order or the look of other characters.

    :param keep: characters that stay
    """
    if text.isprintable():
        return text
    return ''.join(char if char in keep or char.isprintable() or unicodedata.category(char) == 'Zs'
                   else _escape(ord(char)) for char in text)


def _escape(number: int) -> str:
    return f'\\x{number:02x}' if number < 0x100 else f'\\u{number:04x}' if number < 0x10000 else f'\\U{number:08x}'


class _Escaping:
    """A text stream that escapes its output; ends of lines and tabs, which commands print themselves, stay."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(escaped(text, '\n\t').replace('\\x0d\n', '\r\n'))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def escaping() -> Iterator[None]:
    """Pass all printed output through ``escaped``. The output of an interrupted command may be closed."""
    names = ('stdout', 'stderr')
    streams = [getattr(sys, name) for name in names]
    for name, stream in zip(names, streams):
        setattr(sys, name, stream and _Escaping(stream))
    try:
        yield
    finally:
        for name, stream in zip(names, streams):
            setattr(sys, name, stream if getattr(sys, name) is not None else None)


def _cell(value: object) -> str:
    return escaped(str(value))


def print_table(header: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table of texts; None is shown as a dash."""
    table = [header, *([_cell(value) if value is not None else '-' for value in row] for row in rows)]
    widths = _widths(table)
    for row in table:
        print('  '.join(value.ljust(width) for value, width in zip(row, widths)).rstrip())


def print_framed(header: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table with a frame, which scripts parse."""
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
