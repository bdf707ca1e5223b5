"""Request and response types of the object store."""
import dataclasses
import re
from typing import Any
from wsgiref.types import WSGIEnvironment

from nova.db.audit import log
from nova.objectstore import digests
from nova.objectstore import errors
from nova.objectstore import payload
from nova.objectstore import store as stores

PAGE = 1000                       # maximum keys in a page of a list, and in a delete request

Answer = tuple[int, list[tuple[str, str]], Any]         # (status, headers, bytes or a Stream)


@dataclasses.dataclass(frozen=True)
class Request:
    """A request to the store; each operation takes it as argument.

    store, region   the store and its region
    environ   WSGI environment
    project   project of the caller
    bucket, key   '' if the path has none
    params    parameters of the query
    chain     verifier of chunk signatures, if the chunks are signed
    record    audit record of a write
    """

    store: stores.Store
    region: str
    environ: WSGIEnvironment
    project: str
    bucket: str
    key: str
    params: dict[str, str]
    chain: digests.Chain | None = None
    record: log.Record | None = None

    def header(self, name: str) -> str | None:
        """Return a header by its lowercase name."""
        if name in ('content-type', 'content-length'):
            return self.environ.get(name.upper().replace('-', '_')) or None
        return digests.header_of(self.environ, name)

    def body(self, most: int, sums: bool = True, quick: bool = False) -> payload.Payload:
        """See payload.Payload."""
        return payload.Payload(self.environ, most, self.chain, sums, quick)

    def number(self, name: str, least: int, most: int, default: int) -> int:
        text = self.params.get(name)
        if text is None:
            return default
        if not re.fullmatch('[0-9]{1,18}', text) or int(text) < least:
            raise errors.S3Error('InvalidArgument', f'{name} must be a number from {least} to {most}.')
        return min(int(text), most)

    def document(self, most: int, sums: bool = True) -> bytes:
        """Return the XML document in the body; empty if there is no body."""
        if not (self.header('content-length') or '').strip('0') and not self.header('x-amz-decoded-content-length'):
            return b''
        return b''.join(self.body(most, sums))
