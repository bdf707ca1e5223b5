"""Streaming extraction of a tar archive with one file.

The archives are untrusted, and tarfile reads as much into memory as a header announces. So this module uses tarfile
only to parse single headers. It supports the sparse files of ``tar --sparse`` in GNU's format:
https://www.gnu.org/software/tar/manual/html_node/Standard.html
"""
from collections.abc import Iterable, Iterator
import tarfile
from typing import NoReturn

from nova import exception

BLOCK = tarfile.BLOCKSIZE
MAX_EXTRA = 1 << 16             # bytes of a long name, or of extended headers
MAX_HEADERS = 8
MAX_PIECES = 1 << 20            # data pieces of a sparse file
MAX_PADDING = 1 << 20           # bytes of zeros after the file
ZEROS = bytes(1 << 16)
_LONG = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)


def extract(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield the content of the only file in an archive. Reads all ``pieces``.

    :param size: required size of the file
    :raises InvalidInput: the archive is malformed or truncated, or does not contain exactly one file
    """
    source = _Source(pieces)
    header, block, length = _header(source)
    if header.type == tarfile.GNUTYPE_SPARSE:
        yield from _sparse(source, block, length, size)
    else:
        if length != size:
            _refuse('the size of its file differs from the manifest')
        yield from source.copy(size)
        source.skip(-size % BLOCK)
    left = MAX_PADDING
    for piece in source.rest():
        left -= len(piece)
        if left < 0 or piece.count(0) != len(piece):
            _refuse('it has more than one file')


class _Source:
    """Reads a given number of bytes from consecutive pieces."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces, self._held = iter(pieces), b''

    def read(self, length: int) -> bytes:
        """Read exactly ``length`` bytes."""
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
        _refuse('it is truncated')


def _header(source: _Source) -> tuple[tarfile.TarInfo, bytes, int]:
    """Return (header, its block, length of the body) of the first file, skipping name and extended headers."""
    size = None
    for _ in range(MAX_HEADERS):
        block = source.read(BLOCK)
        try:
            header = tarfile.TarInfo.frombuf(block, 'utf-8', 'surrogateescape')
        except tarfile.HeaderError:
            _refuse('it is not an archive')
        if header.type in (*_LONG, tarfile.XHDTYPE, tarfile.XGLTYPE):
            if not 0 <= header.size <= MAX_EXTRA:
                _refuse('its headers are too long')
            records = source.read(header.size)
            source.skip(-header.size % BLOCK)
            if header.type == tarfile.XHDTYPE:
                size = _size_in(records, size)
            continue
        if header.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE):
            _refuse('it has an entry that is not a file')
        length = header.size if size is None else size
        if length < 0:
            _refuse('it is not an archive')
        return header, block, length
    _refuse('it has too many headers')


def _size_in(records: bytes, before: int | None) -> int | None:
    """Return the size of a large file from tar's extended headers, or ``before`` if they contain no size."""
    while records:
        length, _, _rest = records.partition(b' ')
        if not length.isdigit() or not len(length) < int(length[:9]) <= len(records):
            _refuse('its headers are malformed')
        name, _, value = records[len(length) + 1:int(length)].rstrip(b'\n').partition(b'=')
        if name.startswith(b'GNU.sparse'):
            _refuse('its sparse format is not supported: bundle it without --sparse')
        if name == b'size':
            if not value.isdigit() or len(value) > 18:
                _refuse('its headers are malformed')
            before = int(value)
        records = records[int(length):]
    return before


# ---- sparse files ----------------------------------------------------------------

def _sparse(source: _Source, block: bytes, stored: int, size: int) -> Iterator[bytes]:
    """Yield a sparse file with its holes filled.

    In GNU's format, two fields of 12 bytes contain the offset and length of a piece. The header has four such pairs, a
    flag byte and the total size. If the flag is set, a block with 21 more pairs and another flag follows.

    :param stored: bytes of all pieces
    """
    if _number(block[483:495]) != size:
        _refuse('the size of its file differs from the manifest')
    pairs, more = _pairs(block[386:482]), block[482]
    while more and len(pairs) <= MAX_PIECES:
        block = source.read(BLOCK)
        pairs += _pairs(block[:504])
        more = block[504]
    if more:
        _refuse('its sparse map is too large')
    place = 0
    for begin, length in pairs:
        if begin < place or begin + length > size or length > stored:
            _refuse('the sparse map of its file is malformed')
        yield from _fill(begin - place)
        yield from source.copy(length)
        place, stored = begin + length, stored - length
    yield from _fill(size - place)
    if stored:
        _refuse('the sparse map of its file is malformed')
    source.skip(-sum(length for _begin, length in pairs) % BLOCK)


def _pairs(fields: bytes) -> list[tuple[int, int]]:
    """Return [(offset, length)] of the used pairs; unused pairs are zero bytes."""
    found = [fields[place:place + 24] for place in range(0, len(fields), 24)]
    return [(_number(pair[:12]), _number(pair[12:])) for pair in found if pair[0]]


def _number(field: bytes) -> int:
    """Parse a number: octal digits, or binary after a first byte of 0x80."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], 'big')
    text = field.rstrip(b'\0 ').lstrip(b' ') or b'0'
    if not text.isdigit() or b'8' in text or b'9' in text:
        _refuse('its numbers are malformed')
    return int(text, 8)


def _fill(length: int) -> Iterator[bytes]:
    while length:
        yield ZEROS[:length]
        length -= min(length, len(ZEROS))


def _refuse(reason: str) -> NoReturn:
    raise exception.InvalidInput(reason=f'the archive of the image is invalid: {reason}.')
