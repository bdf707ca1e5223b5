"""The one file of a tar archive, read in one pass.

tarfile keeps what a header announces in memory, however much it is; here the archive is a stranger's. So headers are
read by tarfile's function for one header, and bodies here. Files with holes are what ``tar --sparse`` makes in GNU's
format: https://www.gnu.org/software/tar/manual/html_node/Standard.html
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator
import tarfile
from typing import NoReturn

from nova import exception

BLOCK = tarfile.BLOCKSIZE
MAX_EXTRA = 1 << 16             # bytes of a long name, or of the records before a header
MAX_HEADERS = 8
MAX_PIECES = 1 << 20            # of a file with holes
MAX_PADDING = 1 << 20           # bytes of zeros at the end
ZEROS = bytes(1 << 16)
_LONG = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)


def extract(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The file of an archive that has exactly one; all of ``pieces`` is read.

    :param size: bytes that the file must have
    :raises InvalidInput: it is no archive, has another file, or a part of it is missing
    """
    source = _Source(pieces)
    header, block, length = _header(source)
    if header.type == tarfile.GNUTYPE_SPARSE:
        yield from _sparse(source, block, length, size)
    else:
        if length != size:
            _refuse('its file has another size than the manifest says')
        yield from source.copy(size)
        source.skip(-size % BLOCK)
    left = MAX_PADDING
    for piece in source.rest():
        left -= len(piece)
        if left < 0 or piece.count(0) != len(piece):
            _refuse('it has more than one file')


class _Source:
    """Reads pieces by length."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces, self._held = iter(pieces), b''

    def read(self, length: int) -> bytes:
        """Exactly so many bytes."""
        return b''.join(self.copy(length))

    def copy(self, length: int) -> Iterator[bytes]:
        while length:
            if not self._held:
                self._held = self._next()
            piece, self._held = self._held[:length], self._held[length:]
            length -= len(piece)
            yield piece

    def skip(self, length: int) -> None:
        for _piece in self.copy(length):
            pass

    def rest(self) -> Iterator[bytes]:
        yield self._held
        yield from self._pieces

    def _next(self) -> bytes:
        for piece in self._pieces:
            if piece:
                return piece
        _refuse('it is cut off')


def _header(source: _Source) -> tuple[tarfile.TarInfo, bytes, int]:
    """(header, its block, length of the body) of the first file; the names and records before it are read over."""
    size = None
    for _ in range(MAX_HEADERS):
        block = source.read(BLOCK)
        try:
            header = tarfile.TarInfo.frombuf(block, 'utf-8', 'surrogateescape')
        except tarfile.HeaderError:
            _refuse('it is no archive')
        if header.type in (*_LONG, tarfile.XHDTYPE, tarfile.XGLTYPE):
            if not 0 <= header.size <= MAX_EXTRA:
                _refuse('its headers are too long')
            records = source.read(header.size)
            source.skip(-header.size % BLOCK)
            if header.type == tarfile.XHDTYPE:
                size = _size_in(records, size)
            continue
        if header.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE):
            _refuse('it has something else than a file')
        length = header.size if size is None else size
        if length < 0:
            _refuse('it is no archive')
        return header, block, length
    _refuse('its headers are too many')


def _size_in(records: bytes, before: int | None) -> int | None:
    """The size that a file has by the records before its header, which tar writes for large ones."""
    while records:
        length, _, _rest = records.partition(b' ')
        if not length.isdigit() or not len(length) < int(length[:9]) <= len(records):
            _refuse('its headers are not of the form')
        name, _, value = records[len(length) + 1:int(length)].rstrip(b'\n').partition(b'=')
        if name.startswith(b'GNU.sparse'):
            _refuse('its file has holes in a format that is not GNU tar\'s own: bundle it without --sparse')
        if name == b'size':
            if not value.isdigit() or len(value) > 18:
                _refuse('its headers are not of the form')
            before = int(value)
        records = records[int(length):]
    return before


# ---- files with holes ------------------------------------------------------------

def _sparse(source: _Source, block: bytes, stored: int, size: int) -> Iterator[bytes]:
    """A file with its holes filled.

    In GNU's format pairs of 12 bytes say where a piece is and how long: four in the header, then, while a byte says
    so, 21 in each of the blocks that follow. The size of the whole file stands behind the four.

    :param stored: bytes of all pieces
    """
    if _number(block[483:495]) != size:
        _refuse('its file has another size than the manifest says')
    pairs, more = _pairs(block[386:482]), block[482]
    while more and len(pairs) <= MAX_PIECES:
        block = source.read(BLOCK)
        pairs += _pairs(block[:504])
        more = block[504]
    if more:
        _refuse('its file has too many holes')
    place = 0
    for begin, length in pairs:
        if begin < place or begin + length > size or length > stored:
            _refuse('the holes of its file are not of the form')
        yield from _fill(begin - place)
        yield from source.copy(length)
        place, stored = begin + length, stored - length
    yield from _fill(size - place)
    if stored:
        _refuse('the holes of its file are not of the form')
    source.skip(-sum(length for _begin, length in pairs) % BLOCK)


def _pairs(fields: bytes) -> list[tuple[int, int]]:
    """The pairs that are used; the rest of a header or block is zeros."""
    found = [fields[place:place + 24] for place in range(0, len(fields), 24)]
    return [(_number(pair[:12]), _number(pair[12:])) for pair in found if pair[0]]


def _number(field: bytes) -> int:
    """Octal digits, or the bytes of a large number behind a first one of 0x80."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], 'big')
    text = field.rstrip(b'\0 ').lstrip(b' ') or b'0'
    if not text.isdigit() or b'8' in text or b'9' in text:
        _refuse('its numbers are not of the form')
    return int(text, 8)


def _fill(length: int) -> Iterator[bytes]:
    while length:
        yield ZEROS[:length]
        length -= min(length, len(ZEROS))


def _refuse(reason: str) -> NoReturn:
    raise exception.InvalidInput(reason=f'the archive of the image cannot be used: {reason}.')
