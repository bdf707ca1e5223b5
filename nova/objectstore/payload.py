"""The bytes of a request's body, as its headers describe them: framed in chunks or not, with digests that must fit.

What is iterated over may only be named when the end was reached: digests and signatures are looked at behind the bytes.
"""
from __future__ import annotations

from collections.abc import Iterator
import hashlib
import re
from typing import Any
import uuid

from nova import exception
from nova.objectstore import counting
from nova.objectstore import digests
from nova.objectstore import errors
from nova.objectstore import framed
from nova.web import bodies

PIECE = 512 * 1024                                 # bytes read at once: what the server takes from a connection
MD5_MOST = 64 << 20                                # bytes of a whole object whose ETag is its MD5 in any case
UNSIGNED = 'UNSIGNED-PAYLOAD'
# kinds of framed contents: (their chunks are signed, checksums come behind them)
FRAMED = {'STREAMING-UNSIGNED-PAYLOAD-TRAILER': (False, True), 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD': (True, False),
          'STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER': (True, True)}
MIN_CHUNK = 8192             # bytes of each but the last, as in S3: each costs a line and a digest
MAX_TRAILERS = 8
_SHA256 = re.compile('[0-9a-f]{64}')
_CHUNK = re.compile(rb'([0-9a-fA-F]{1,16})(?:;chunk-signature=([0-9a-f]{64}))?')
_SIGNATURE = 'x-amz-trailer-signature'


class Payload:
    """Iterates over the content once; ``length`` are its bytes, known before.

    :param chain: of the chunks, if they are signed
    :param sums: whether checksums of the headers are of this content
    :param quick: without the MD5 of a large content, where the request does not say one: counting it takes longer than
        writing to a fast disk
    :raises S3Error: its length is not known, or more than ``most``; while it is read: a digest or a signature does not
        fit
    """

    def __init__(self, environ: dict[str, Any], most: int, chain: digests.Chain | None = None,
                 sums: bool = True, quick: bool = False) -> None:
        self._input, self._hash = environ['wsgi.input'], digests.header_of(environ, 'x-amz-content-sha256') or UNSIGNED
        self._framed, (signed, trailed) = self._hash in FRAMED, FRAMED.get(self._hash, (False, False))
        self._chain = chain if signed else None
        if signed and chain is None:
            raise errors.unsupported('A signature of chunks without one of version 4 in a header before it')
        if not self._framed and self._hash != UNSIGNED and not _SHA256.fullmatch(self._hash):
            raise errors.unsupported(f'A body of the kind {self._hash[:64]}, instead of one whose SHA-256 is signed,')
        self.length = self._length(environ, most)
        self._trailers = _names(digests.header_of(environ, 'x-amz-trailer')) if trailed else ()
        self._sums = digests.Sums(digests.sums_of(environ) if sums else {},
                          [each.removeprefix('x-amz-checksum-') for each in self._trailers])
        self._counting = counting.Counting()
        self._md5_wanted = digests.header_of(environ, 'content-md5')
        self._md5 = None if quick and self._md5_wanted is None and self.length > MD5_MOST else hashlib.md5(
            usedforsecurity=False)

    def etag(self) -> str:
        """Of what was read: its MD5; else what S3's clients take for no MD5."""
        return self._md5.hexdigest() if self._md5 is not None else f'{uuid.uuid4().hex}-1'

    def _length(self, environ: dict[str, Any], most: int) -> int:
        try:
            length = bodies.length_of(environ)
            if self._framed:
                text = digests.header_of(environ, 'x-amz-decoded-content-length') or ''
                length = int(text) if re.fullmatch('[0-9]{1,16}', text) else None
        except exception.BadRequest:
            length = None
        if length is None:
            raise errors.S3Error('MissingContentLength', 'The length of the content is not known.', 411)
        if length > most:
            raise errors.S3Error('EntityTooLarge', f'The content is larger than {most} bytes.')
        return length

    def __iter__(self) -> Iterator[framed.Piece]:
        whole, left = hashlib.sha256(), self.length
        counted: tuple[tuple[Any, bool], ...] = (
            (self._md5, self._md5 is not None), (whole, not self._framed and self._hash != UNSIGNED),
            (self._sums, bool(self._sums)))
        counts = [each.update for each, wanted in counted if wanted]
        for piece in self._chunks() if self._framed else self._plain():
            left -= len(piece)
            if left < 0:
                break
            for count in counts:
                self._counting.add(count, piece)
            yield piece
        self._counting.end()
        if left:
            raise errors.S3Error('IncompleteBody', 'The content has another length than the request says.')
        if not self._framed and self._hash not in (UNSIGNED, whole.hexdigest()):
            raise errors.S3Error('XAmzContentSHA256Mismatch', 'The content is not the one whose SHA-256 was signed.')
        if self._md5_wanted is not None and self._md5 is not None and (
                digests.decoded(self._md5_wanted) != self._md5.digest()):
            raise errors.S3Error('BadDigest', 'The content does not have the MD5 that Content-MD5 says.')
        self._sums.check()

    def _plain(self) -> Iterator[bytes]:
        left = self.length
        while left:
            piece = self._input.read(min(PIECE, left))
            if not piece:
                return
            left -= len(piece)
            yield piece

    def _chunks(self) -> Iterator[memoryview]:
        """The chunks of aws-chunked, and the checksums behind them."""
        size, frames = MIN_CHUNK, framed.Framed(self._input.read, PIECE)
        while size:
            before, found = size, _CHUNK.fullmatch(frames.line())
            if not found or self._chain is not None and not found[2]:
                raise self._malformed()
            left = size = int(found[1], 16)
            if size and before < MIN_CHUNK:
                raise self._malformed(f'A chunk other than the last has fewer than {MIN_CHUNK} bytes.')
            digest = hashlib.sha256()
            while left:
                piece = frames.piece(left)
                if not piece:
                    raise self._malformed()
                left -= len(piece)
                if self._chain is not None:
                    self._counting.add(digest.update, piece)
                yield piece
            if self._chain is not None:
                self._counting.then(_check_chunk, self._chain, found[2].decode(), digest)
            if size and frames.line():
                raise self._malformed()
        self._counting.end()
        self._read_trailers(frames)

    def _malformed(self, why: str = 'The content is not framed as aws-chunked.') -> errors.S3Error:
        """
        :raises S3Error: a signature before it does not fit; that is reported instead
        """
        self._counting.end()
        return errors.S3Error('InvalidChunkSizeError', why)

    def _read_trailers(self, frames: framed.Framed) -> None:
        """
        :raises S3Error: one was not announced, or did not come, or their signature does not fit
        """
        came: dict[str, str] = {}
        signature, signed = '', self._chain is not None and bool(self._trailers)
        for _ in range(MAX_TRAILERS):
            line = frames.line()
            if not line:
                if signed and not signature and len(came) == len(self._trailers):
                    continue                       # some clients have an empty line before the signature
                break
            name, _, value = line.decode('latin-1').partition(':')
            label = name.strip().lower()
            if signed and label == _SIGNATURE:
                signature = value.strip()
            elif label not in self._trailers or label in came:
                raise errors.S3Error('MalformedTrailerError', 'A trailer was not announced, or came twice.')
            else:
                came[label] = value.strip()
        if len(came) < len(self._trailers) or signed and not signature:
            raise errors.S3Error('MalformedTrailerError', 'A trailer that was announced did not come.')
        if signed and self._chain is not None:
            text = ''.join(f'{name}:{value}\n' for name, value in came.items())
            self._chain.check(signature, hashlib.sha256(text.encode('latin-1')).hexdigest(), trailer=True)
        self._sums.want({name.removeprefix('x-amz-checksum-'): value for name, value in came.items()})


def _check_chunk(chain: digests.Chain, signature: str, digest: Any) -> None:
    chain.check(signature, digest.hexdigest())


def _names(text: str | None) -> tuple[str, ...]:
    names = tuple(name.strip().lower() for name in (text or '').split(',') if name.strip())
    if not all(name.startswith('x-amz-checksum-') for name in names):
        raise errors.unsupported('A trailer other than a checksum')
    return names
