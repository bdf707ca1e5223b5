"""Print tables and sentences of commands as text, JSON or values, with control characters of user input escaped."""
from collections.abc import Callable, Iterable, Iterator, Sequence
import contextlib
import contextvars
import io
import json
import re
import sys
from typing import Any, TextIO
import unicodedata

from nova.json_types import Encodable

FORMATS = {'table': 'text for people', 'json': 'one JSON document',
           'value': 'rows without a header, with a tab between values'}


def escaped(text: str, keep: str = '') -> str:
    """Return a text with an escape for each unprintable character.

    Control characters could control the terminal. Marks of bidirectional text, zero-width characters, and line and
    paragraph separators could change the order or the look of other characters.

    :param keep: characters that are not escaped
    """
    if text.isprintable():
        return text
    return ''.join(char if char in keep or char.isprintable() or unicodedata.category(char) == 'Zs'
                   else _escape(ord(char)) for char in text)


def _escape(number: int) -> str:
    return f'\\x{number:02x}' if number < 0x100 else f'\\u{number:04x}' if number < 0x10000 else f'\\U{number:08x}'


class _Escaping:
    """Text stream that escapes its output, except line ends and tabs, which commands print."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(escaped(text, '\n\t').replace('\\x0d\n', '\r\n'))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def escaping() -> Iterator[None]:
    """Pass all printed output through ``escaped``. A stream that the block sets to None (broken pipe) stays None."""
    names = ('stdout', 'stderr')
    streams = [getattr(sys, name) for name in names]
    for name, stream in zip(names, streams):
        setattr(sys, name, stream and _Escaping(stream))
    try:
        yield
    finally:
        for name, stream in zip(names, streams):
            setattr(sys, name, stream if getattr(sys, name) is not None else None)


class _Output:
    """The tables and the document that a command has printed in a format other than text."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] | None = None
        self.document: Encodable = None
        self.values: Sequence[object] | None = None


_output: contextvars.ContextVar[_Output | None] = contextvars.ContextVar('output', default=None)


@contextlib.contextmanager
def formatted(name: str) -> Iterator[None]:
    """Print the output of a command in one of FORMATS.

    In the formats ``json`` and ``value``, which programs read, standard output has only the table or document of the
    command; sentences go to standard error. A command without table or document prints sentences to standard output.
    """
    if name == 'table':
        yield
        return
    stdout, printed, output = sys.stdout, io.StringIO(), _Output()
    token = _output.set(output)
    try:
        with contextlib.redirect_stdout(printed):
            yield
    finally:
        _output.reset(token)
        lines = printed.getvalue().splitlines()
        found: Any = output.rows if output.document is None else output.document
        failed = sys.exception() is not None and found is None and not lines
        if found is not None:
            print(*lines, sep='\n', end='\n' if lines else '', file=sys.stderr)
        if name == 'json' and not failed:
            print(json.dumps({'output': lines} if found is None else found, indent=1, default=str), file=stdout)
        elif not failed:
            for line in lines if found is None else map(
                    _value_line, found if output.values is None else output.values):
                print(line, file=stdout)


def _value_line(row: object) -> str:
    """Return a line of the format ``value``."""
    cells = row.values() if isinstance(row, dict) else [row]
    return '\t'.join(escaped(cell) if isinstance(cell, str) else '' if cell is None else json.dumps(cell, default=str)
                     for cell in cells)


def print_document(document: Encodable, print_text: Callable[[], object],
                   values: Sequence[object] | None = None) -> None:
    """Print a result that is not a table.

    :param document: for the format ``json``: a list of objects, or an object
    :param print_text: prints it for people
    :param values: for the format ``value``, one a line; None: the values of the objects of the list
    """
    output = _output.get()
    if output is None:
        print_text()
    else:
        output.document, output.values = document, values


def _cell(value: object) -> str:
    return escaped(str(value))


def print_table(header: Sequence[str], rows: Iterable[Iterable[object]], empty: str | None = None) -> None:
    """Print a table of texts; None is shown as a dash. Other formats derive keys from the header, such as ``in_use``.

    :param empty: sentence for people in place of a table without rows
    """
    if _noted(header, rows := [*rows]):
        return
    if not rows and empty:
        print(empty)
        return
    table = [header, *([_cell(value) if value is not None else '-' for value in row] for row in rows)]
    widths = _widths(table)
    for row in table:
        print('  '.join(value.ljust(width) for value, width in zip(row, widths)).rstrip())


def print_framed(header: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table with a frame, because scripts parse this format."""
    if _noted(header, rows := [*rows]):
        return
    table = [[_cell(value) for value in row] for row in (header, *rows)]
    widths = _widths(table)
    frame = '+' + '+'.join('-' * (width + 2) for width in widths) + '+'
    print(frame)
    for number, row in enumerate(table):
        print('| ' + ' | '.join(value.ljust(width) for value, width in zip(row, widths)) + ' |')
        if number == 0:
            print(frame)
    print(frame)


def _noted(header: Sequence[str], rows: Iterable[Iterable[object]]) -> bool:
    """Store the rows of a table if the output format is not text; return whether they were stored."""
    output = _output.get()
    if output is None:
        return False
    keys = [re.sub('[^a-z0-9]+', '_', name.lower()).strip('_') for name in header]
    output.rows = (output.rows or []) + [dict(zip(keys, row)) for row in rows]
    return True


def _widths(table: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*table)]
