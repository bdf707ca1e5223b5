"""What an operation of the object store gets, and what it answers with."""
from __future__ import annotations

import dataclasses
import re
from typing import Any

from nova.db.audit import log
from nova.objectstore import digests
from nova.objectstore import errors
from nova.objectstore import payload
from nova.objectstore import store as stores

PAGE = 1000                       # keys of a page, and of one request to delete

Answer = tuple[int, list[tuple[str, str]], Any]         # (status, headers, bytes or a Stream)


@dataclasses.dataclass(frozen=True)
class Request:
    """What an operation gets.

    store, region   what it works on, and where that is
    environ   of WSGI
    project   of who has signed
    bucket, key   '' where the path has none
    params    of the query
    chain     of the signatures of its chunks, if these are signed
    record    of a write in the audit log
    """

    store: stores.Store
    region: str
    environ: dict[str, Any]
    project: str
    bucket: str
    key: str
    params: dict[str, str]
    chain: digests.Chain | None = None
    record: log.Record | None = None

    def header(self, name: str) -> str | None:
        """By its name in lower case."""
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
        if not re.fullmatch('[0-9]{1,9}', text) or int(text) < least:
            raise errors.S3Error('InvalidArgument', f'{name} must be a number of {least} to {most}.')
        return min(int(text), most)

    def document(self, most: int, sums: bool = True) -> bytes:
        """The body where it is a document."""
        if not (self.header('content-length') or '').strip('0') and not self.header('x-amz-decoded-content-length'):
            return b''
        return b''.join(self.body(most, sums))
