"""Tables that commands print."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def print_table(header: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """A table of texts; None is shown as a dash."""
    table = [header, *([str(value) if value is not None else '-' for value in row] for row in rows)]
    widths = _widths(table)
    for row in table:
        print('  '.join(value.ljust(width) for value, width in zip(row, widths)).rstrip())


def print_framed(header: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """A table with a frame: what scripts around these commands cut their columns from."""
    table = [[str(value) for value in row] for row in (header, *rows)]
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
