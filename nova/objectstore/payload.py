"""The body of a request: optional aws-chunked framing, digests and signatures.

Use the content only after the iteration has ended: digests and signatures are verified at its end.
"""
from collections.abc import Callable, Iterator
import hashlib
import re
from typing import Any
import uuid
from wsgiref.types import WSGIEnvironment

from nova import exception
from nova.objectstore import background_calls
from nova.objectstore import digests
from nova.objectstore import errors
from nova.objectstore import framing
from nova.web import bodies

PIECE = 512 * 1024                        # bytes of one read; the HTTP server reads uploads in pieces of this size
MAX_MD5_BYTES = 64 << 20                                # objects up to this size always have an MD5 as ETag
UNSIGNED = 'UNSIGNED-PAYLOAD'
# {value of x-amz-content-sha256 for aws-chunked bodies: (whether chunks are signed, whether trailers have checksums)}
FRAMED = {'STREAMING-UNSIGNED-PAYLOAD-TRAILER': (False, True), 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD': (True, False),
          'STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER': (True, True)}
MIN_CHUNK = 8192             # minimum bytes of each chunk but the last, as in S3; smaller chunks need too much CPU time
MAX_TRAILERS = 8
_SHA256 = re.compile('[0-9a-f]{64}')
_CHUNK = re.compile(rb'([0-9a-fA-F]{1,16})(?:;chunk-signature=([0-9a-f]{64}))?')
_SIGNATURE = 'x-amz-trailer-signature'


class Payload:
    """The content of a request, which can be iterated once. Its size, ``length``, is known in advance.

    :param chain: verifier of the chunks' signatures, if they are signed
    :param sums: whether the checksum headers refer to this content
    :param quick: whether to omit the MD5 of large content unless requested, because computing it is slower than a fast
        disk
    :raises S3Error: the length is unknown or exceeds ``most``, or, during the iteration, a digest or signature is wrong
    """

    def __init__(self, environ: WSGIEnvironment, most: int, chain: digests.Chain | None = None,
                 sums: bool = True, quick: bool = False) -> None:
        self._input, self._hash = environ['wsgi.input'], digests.header_of(environ, 'x-amz-content-sha256') or UNSIGNED
        self._framed, (signed, trailed) = self._hash in FRAMED, FRAMED.get(self._hash, (False, False))
        self._chain = chain if signed else None
        if signed and chain is None:
            raise errors.unsupported('Signed chunks without a version 4 Authorization header')
        if not self._framed and self._hash != UNSIGNED and not _SHA256.fullmatch(self._hash):
            raise errors.unsupported(f'The value {self._hash[:64]} of x-amz-content-sha256')
        self.length = self._length(environ, most)
        self._trailers = _names(digests.header_of(environ, 'x-amz-trailer')) if trailed else ()
        self._sums = digests.Checksums(digests.sums_of(environ) if sums else {},
                          [each.removeprefix('x-amz-checksum-') for each in self._trailers])
        self._background = background_calls.BackgroundCalls()
        self._md5_wanted = digests.header_of(environ, 'content-md5')
        self._md5 = None if quick and self._md5_wanted is None and self.length > MAX_MD5_BYTES else hashlib.md5(
            usedforsecurity=False)

    def etag(self) -> str:
        """Return the ETag, after the iteration: the MD5, or a random value with a suffix that an MD5 cannot have."""
        return self._md5.hexdigest() if self._md5 is not None else f'{uuid.uuid4().hex}-1'

    def _length(self, environ: WSGIEnvironment, most: int) -> int:
        try:
            length = bodies.length_of(environ)
            if self._framed:
                text = digests.header_of(environ, 'x-amz-decoded-content-length') or ''
                length = int(text) if re.fullmatch('[0-9]{1,16}', text) else None
        except exception.BadRequest:
            length = None
        if length is None:
            raise errors.S3Error('MissingContentLength', 'The length of the content is missing.', 411)
        if length > most:
            raise errors.S3Error('EntityTooLarge', f'The content is larger than {most} bytes.')
        return length

    def __iter__(self) -> Iterator[framing.Piece]:
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
                self._background.add(count, piece)
            yield piece
        self._background.end()
        if left:
            raise errors.S3Error('IncompleteBody', 'The length of the content differs from that in the request.')
        if not self._framed and self._hash not in (UNSIGNED, whole.hexdigest()):
            raise errors.S3Error('XAmzContentSHA256Mismatch', 'The SHA-256 of the content differs from the signed one.')
        if self._md5_wanted is not None and self._md5 is not None and (
                digests.decoded(self._md5_wanted) != self._md5.digest()):
            raise errors.S3Error('BadDigest', 'The MD5 of the content differs from Content-MD5.')
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
        """Yield the data of an aws-chunked body, and verify its signatures and trailers."""
        size, frames = MIN_CHUNK, framing.FrameReader(self._input.read, PIECE)
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
                    self._background.add(digest.update, piece)
                yield piece
            if self._chain is not None:
                self._background.then(_check_chunk, self._chain, found[2].decode(), digest.hexdigest)
            if size and frames.line():
                raise self._malformed()
        self._background.end()
        self._read_trailers(frames)

    def _malformed(self, why: str = 'The content is not framed as aws-chunked.') -> errors.S3Error:
        """Return the error for malformed framing.

        :raises S3Error: the signature of an earlier chunk is wrong; this error takes precedence
        """
        self._background.end()
        return errors.S3Error('InvalidChunkSizeError', why)

    def _read_trailers(self, frames: framing.FrameReader) -> None:
        """Read and verify the trailers.

        :raises S3Error: unannounced, missing or wrongly signed trailer
        """
        came: dict[str, str] = {}
        signature, signed = '', self._chain is not None and bool(self._trailers)
        for _ in range(MAX_TRAILERS):
            line = frames.line()
            if not line:
                if signed and not signature and len(came) == len(self._trailers):
                    continue                       # some clients send an empty line before the signature
                break
            name, _, value = line.decode('latin-1').partition(':')
            label = name.strip().lower()
            if signed and label == _SIGNATURE:
                signature = value.strip()
            elif label not in self._trailers or label in came:
                raise errors.S3Error('MalformedTrailerError', 'A trailer was not announced, or is repeated.')
            else:
                came[label] = value.strip()
        if len(came) < len(self._trailers) or signed and not signature:
            raise errors.S3Error('MalformedTrailerError', 'An announced trailer is missing.')
        if signed and self._chain is not None:
            text = ''.join(f'{name}:{value}\n' for name, value in came.items())
            self._chain.check(signature, hashlib.sha256(text.encode('latin-1')).hexdigest(), trailer=True)
        self._sums.want({name.removeprefix('x-amz-checksum-'): value for name, value in came.items()})


def _check_chunk(chain: digests.Chain, signature: str, hexdigest: Callable[[], str]) -> None:
    chain.check(signature, hexdigest())


def _names(text: str | None) -> tuple[str, ...]:
    names = tuple(name.strip().lower() for name in (text or '').split(',') if name.strip())
    if not all(name.startswith('x-amz-checksum-') for name in names):
        raise errors.unsupported('A trailer other than a checksum')
    return names
