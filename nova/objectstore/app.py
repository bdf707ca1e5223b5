"""S3 over HTTP: signature → user → rule → operation → XML or bytes."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
import dataclasses
import datetime
import email.utils
import hashlib
import logging
import re
from typing import Any
from typing import Protocol
import urllib.parse

from nova import context
from nova import exception
from nova import utils
from nova.db.audit import log
from nova.objectstore import audit
from nova.objectstore import contents
from nova.objectstore import digests
from nova.objectstore import documents
from nova.objectstore import errors
from nova.objectstore import payload
from nova.objectstore import signing
from nova.objectstore import store as stores
from nova.web.request import Stream

LOG = logging.getLogger(__name__)

READ, WRITE = 'objectstore:read', 'objectstore:write'
PAGE = 1000                       # keys of a page, and of one request to delete
KEPT = ('cache-control', 'content-disposition', 'content-encoding', 'content-language', 'expires')
META, MAX_META = 'x-amz-meta-', 2048
# Parameters that ask for what S3 has and this store has not: named, so that nothing is answered as something else.
ELSE = {'accelerate', 'analytics', 'attributes', 'cors', 'encryption', 'intelligent-tiering', 'inventory', 'legal-hold',
        'lifecycle', 'logging', 'metrics', 'notification', 'object-lock', 'ownershipControls', 'partNumber', 'policy',
        'policyStatus', 'publicAccessBlock', 'replication', 'requestPayment', 'restore', 'retention', 'select',
        'session', 'tagging', 'torrent', 'versionId', 'versions', 'website'}
REFUSED_HEADERS = ('x-amz-server-side-encryption', 'x-amz-tagging', 'x-amz-object-lock', 'x-amz-grant-',
                   'x-amz-website-redirect-location', 'x-amz-copy-source-server-side', 'x-amz-write-offset-bytes')
OWN_ACLS = ('private', 'bucket-owner-full-control', 'bucket-owner-read')

Answer = tuple[int, list[tuple[str, str]], Any]


@dataclasses.dataclass(frozen=True)
class User:
    """Who has signed a request."""

    user_id: str
    project_id: str
    roles: tuple[str, ...]


class Callers(Protocol):
    """Who sends a request, as the Identity service says."""

    def signer(self, signed: signing.Signed, address: str) -> User:
        """Who has signed.

        :raises S3Error: the signature is wrong, or cannot be checked
        """

    def key(self, access: str, scope: str) -> bytes:
        """The key of a scope, that chunks are signed with; asked for who has signed.

        :raises S3Error: there is none, or it cannot be read
        """

    def owner(self, token: str) -> User:
        """Who has a token.

        :raises S3Error: it is wrong, is for no project, or cannot be checked
        """


@dataclasses.dataclass(frozen=True)
class Request:
    """What an operation gets.

    environ   of WSGI
    project   of who has signed
    bucket, key   '' where the path has none
    params    of the query
    chain     of the signatures of its chunks, if these are signed
    record    of a write in the audit log
    """

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


class Application:
    """A WSGI application.

    :param store: stores.Store
    :param callers: who sends a request
    :param allows: function(User, rule) -> whether the policy lets him
    :param region: that a bucket is in
    :param finish: function(record, code of the answer) that keeps the record of a write
    """

    def __init__(self, store: stores.Store, callers: Callers, allows: Callable[[User, str], bool],
                 region: str, finish: audit.Finish) -> None:
        self._store, self._callers, self._allows, self._region = store, callers, allows, region
        self._finish = finish

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request_id = environ.setdefault('openstack.request_id', context.new_request_id())
        context.RequestContext(request_id=request_id, remote_address=environ.get('REMOTE_ADDR'), overwrite=True)
        refused: errors.S3Error | None = None
        records: list[log.Record] = []
        try:
            status, headers, body = self._serve(environ, records)
        except errors.S3Error as error:
            refused = error
        except exception.InsufficientStorage:
            refused = errors.S3Error('ServiceUnavailable', 'The store has no room left.', 507)
        except (exception.BadRequest, exception.TooLarge):
            refused = errors.S3Error('IncompleteBody', 'The body of the request broke off.')
        except Exception:
            LOG.exception('A request to the object store failed.')
            refused = errors.S3Error('InternalError', 'An internal error has occurred.', 500)
        if refused is not None:
            status, headers, body = refused.status, [], b'' if refused.status == 304 else documents.render(
                'Error', (('Code', refused.code), ('Message', refused.message), ('RequestId', request_id)), False)
        for record in records:
            record.values['reason'] = refused.code if refused is not None else None
            self._finish(record, status)
        head = environ['REQUEST_METHOD'] == 'HEAD'
        names = {name for name, _value in headers}
        if isinstance(body, bytes):
            if body and 'Content-Type' not in names:
                headers = [*headers, ('Content-Type', 'application/xml')]
            if 'Content-Length' not in names and status not in (204, 304):
                headers = [*headers, ('Content-Length', str(len(body)))]
        start_response(f'{status} {errors.PHRASES.get(status, "Error")}', [*headers, ('x-amz-request-id', request_id)])
        if head:
            if isinstance(body, Stream):
                body.close()
            return []
        return body if isinstance(body, Stream) else [body]

    def _serve(self, environ: dict[str, Any], records: list[log.Record]) -> Answer:
        """:param records: gets that of a write, as soon as it is known what is asked for, and by whom"""
        params = signing.pairs_of(environ)
        signed, user = self._caller(environ, params)
        try:
            path = environ.get('PATH_INFO', '').encode('latin-1').decode()
        except UnicodeError:
            raise errors.S3Error('InvalidURI', 'The path is not UTF-8.') from None
        bucket, _, key = path.removeprefix('/').partition('/')
        level = 'object' if key else 'bucket' if bucket else 'service'
        method, sub = environ['REQUEST_METHOD'], None
        for name in params:
            if name in ELSE and not (name == 'partNumber' and 'uploadId' in params) and (
                    method, level, name) not in OPERATIONS:
                raise errors.unsupported(f'?{name}')
            if name in _SUBS:
                sub = name
        for name in environ:
            if name.startswith('HTTP_X_AMZ_') and name[5:].replace('_', '-').lower().startswith(REFUSED_HEADERS):
                raise errors.unsupported(name[5:].replace('_', '-').title())
        row = OPERATIONS.get((method, level, sub))
        if row is None:
            raise errors.S3Error('MethodNotAllowed', 'The method is not allowed against this resource.', 405)
        rule, operation = row
        record = None
        if rule == WRITE:
            record = audit.record_of(environ, operation.__name__.lstrip('_'), (bucket, key), sub)
            record.asked_by(audit.caller(environ, user.user_id, user.project_id, user.roles))
            records.append(record)
        if not self._allows(user, rule):
            raise errors.S3Error('AccessDenied', 'Access denied.', 403)
        req = Request(environ, user.project_id, bucket, key, params, self._chain(environ, signed), record)
        if req.header('x-amz-acl') not in (None, *OWN_ACLS) or req.header('x-amz-storage-class') not in (
                None, 'STANDARD'):
            raise errors.unsupported('An ACL that gives to others, or a storage class,')
        answer: Answer = operation(self, req)
        return answer

    def _chain(self, environ: dict[str, Any], signed: signing.Signed | None) -> digests.Chain | None:
        kind = digests.header_of(environ, 'x-amz-content-sha256') or ''
        if signed is None or not signed.scope or not payload.FRAMED.get(kind, (False, False))[0]:
            return None
        return digests.Chain(self._callers.key(signed.access, signed.scope), signed.text, signed.signature)

    def _caller(self, environ: dict[str, Any], params: dict[str, str]) -> tuple[signing.Signed | None, User]:
        """Who has signed, and what; or, of reads that are not signed, who has the token: a service that reads for its
        user.
        """
        token = environ.get('HTTP_X_AUTH_TOKEN')
        if token and 'HTTP_AUTHORIZATION' not in environ:
            if environ['REQUEST_METHOD'] not in ('GET', 'HEAD'):
                raise errors.S3Error('AccessDenied', 'With a token objects are read: other requests are signed.', 403)
            return None, self._callers.owner(token)
        signed = signing.signed_of(environ, params, utils.utcnow())
        return signed, self._callers.signer(signed, environ.get('REMOTE_ADDR') or '')

    # ---- service and buckets

    def list_buckets(self, req: Request) -> Answer:
        rows = self._store.buckets(req.project)
        return _xml('ListAllMyBucketsResult', (_owner(req), ('Buckets', [
            ('Bucket', [('Name', row.name), ('CreationDate', _stamp(row.created_at))]) for row in rows])))

    def make_bucket(self, req: Request) -> Answer:
        data = _document(req, 64 << 10)
        if data:
            root = documents.parse(data, 'CreateBucketConfiguration')
            documents.only(root, 'LocationConstraint')
            found = root.findtext('LocationConstraint')
            if found not in (None, '', self._region):
                raise errors.S3Error('InvalidLocationConstraint', f'This store is the region {self._region}.')
        self._store.make_bucket(req.project, req.bucket)
        return 200, [('Location', '/' + req.bucket)], b''

    def head_bucket(self, req: Request) -> Answer:
        self._store.bucket(req.project, req.bucket)
        return 200, [('x-amz-bucket-region', self._region)], b''

    def remove_bucket(self, req: Request) -> Answer:
        self._store.remove_bucket(req.project, req.bucket)
        return 204, [], b''

    def location(self, req: Request) -> Answer:
        self._store.bucket(req.project, req.bucket)
        text = f'{documents.HEAD}<LocationConstraint xmlns="{documents.NAMESPACE}">{self._region}</LocationConstraint>'
        return 200, [], text.encode()

    def versioning(self, req: Request) -> Answer:
        self._store.bucket(req.project, req.bucket)
        return _xml('VersioningConfiguration', ())

    def no_tags(self, req: Request) -> Answer:
        """An object has none, since writes with tags are refused; clients ask before they copy."""
        self._store.find(req.project, req.bucket, req.key)
        return _xml('Tagging', (('TagSet', ()),))

    def acl(self, req: Request) -> Answer:
        if req.key:
            self._store.find(req.project, req.bucket, req.key)
        else:
            self._store.bucket(req.project, req.bucket)
        grantee = [('ID', req.project), ('DisplayName', req.project)]
        body = documents.render('AccessControlPolicy', (_owner(req), ('AccessControlList', [
            ('Grant', [('Grantee', grantee), ('Permission', 'FULL_CONTROL')])])))
        kind = b'<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser">'
        return 200, [], body.replace(b'<Grantee>', kind)

    def set_acl(self, req: Request) -> Answer:
        if req.header('x-amz-acl') is None:
            raise errors.unsupported('An ACL as a document')
        self.acl(req)
        return 200, [], b''

    def list_objects(self, req: Request) -> Answer:
        second = req.params.get('list-type') == '2'
        most, delimiter = req.number('max-keys', 0, PAGE, PAGE), req.params.get('delimiter', '')
        prefix, token = req.params.get('prefix', ''), req.params.get('continuation-token')
        after = req.params.get('start-after' if second else 'marker', '')
        if second and token is not None:
            try:
                after = bytes.fromhex(token).decode()
            except ValueError:
                raise errors.S3Error('InvalidArgument', 'The continuation token is not one of this store.') from None
        found = self._store.page(req.project, req.bucket, prefix, delimiter, after, most)
        shown = _shown(req.params.get('encoding-type'))
        cut = bool(found.next is not None and most)
        parts: list[tuple[str, Any]] = [
            ('Name', req.bucket), ('Prefix', shown(prefix)), ('Delimiter', shown(delimiter) if delimiter else None),
            ('MaxKeys', most), ('EncodingType', req.params.get('encoding-type')), ('IsTruncated', cut)]
        if second:
            parts += [('KeyCount', len(found.rows) + len(found.prefixes)), ('ContinuationToken', token),
                      ('StartAfter', shown(after) if token is None and after else None),
                      ('NextContinuationToken', (found.next or '').encode().hex() if cut else None)]
        else:
            parts += [('Marker', shown(after)), ('NextMarker', shown(found.next or '') if cut else None)]
        parts += [('Contents', [('Key', shown(row.key)), ('LastModified', _stamp(row.modified_at)),
                                ('ETag', f'"{row.etag}"'), ('Size', row.size), ('StorageClass', 'STANDARD'),
                                *([] if second and req.params.get('fetch-owner') != 'true' else [_owner(req)])])
                  for row in found.rows]
        parts += [('CommonPrefixes', [('Prefix', shown(each))]) for each in found.prefixes]
        return _xml('ListBucketResult', parts)

    def remove_objects(self, req: Request) -> Answer:
        root = documents.parse(_document(req, documents.MAX_DOCUMENT), 'Delete')
        keys = [each.findtext('Key') for each in root.findall('Object')]
        if not 0 < len(keys) <= PAGE or None in keys:
            raise errors.S3Error('MalformedXML', f'1 to {PAGE} keys are removed at once.')
        documents.only(root, 'Object', 'Quiet')
        for each in root.findall('Object'):
            documents.only(each, 'Key')
        names = [str(key) for key in keys]
        if req.record is not None:
            req.record.about(f'{len(names)}: ' + ', '.join(names))
        self._store.remove(req.project, req.bucket, names)
        quiet = root.findtext('Quiet', '').lower() == 'true'
        return _xml('DeleteResult', [] if quiet else [('Deleted', [('Key', key)]) for key in names])

    # ---- objects

    def get(self, req: Request) -> Answer:
        row, file = self._store.read(req.project, req.bucket, req.key)
        try:
            _check_conditions(req, row)
            headers = _headers_of(row)
            for name in ('content-type', 'content-language', 'expires', 'cache-control', 'content-disposition',
                         'content-encoding'):
                if f'response-{name}' in req.params:
                    value = _plain(req.params[f'response-{name}'])
                    headers = [each for each in headers if each[0].lower() != name] + [(name.title(), value)]
            start, size, status = 0, row.size, 200
            span = _span(req.header('range'), row.size) if req.header('if-range') in (None, f'"{row.etag}"') else None
            if span is not None:
                start, size, status = span[0], span[1] - span[0] + 1, 206
                headers.append(('Content-Range', f'bytes {span[0]}-{span[1]}/{row.size}'))
            headers.append(('Content-Length', str(size)))
        except BaseException:
            file.close()
            raise
        return status, headers, Stream(contents.read(file, start, size), '', file.close, size)

    def put(self, req: Request) -> Answer:
        if req.header('x-amz-copy-source') is not None:
            return self._copy(req)
        _check_writes(req)
        body = req.body(stores.MAX_PUT, quick=True)
        row = self._store.put(req.project, req.bucket, req.key, body, body.length, _kept(req), body.etag)
        return 200, [('ETag', f'"{row.etag}"')], b''

    def _copy(self, req: Request) -> Answer:
        source, file = self._source(req)
        with file:
            replace = (req.header('x-amz-metadata-directive') or 'COPY').upper() == 'REPLACE'
            if (req.bucket, req.key) == (source[0], source[1]) and not replace:
                raise errors.S3Error('InvalidRequest', 'An object is copied onto itself only with other metadata.')
            digest, row = hashlib.md5(usedforsecurity=False), source[2]
            if row.size > stores.MAX_PUT:
                raise errors.S3Error('InvalidRequest', f'More than {stores.MAX_PUT} bytes are copied in parts.')
            made = self._store.put(req.project, req.bucket, req.key, stores.copied(contents.read(file), digest),
                                   row.size, _kept(req) if replace else row.headers, digest.hexdigest)
        return _xml('CopyObjectResult', (('LastModified', _stamp(made.modified_at)), ('ETag', f'"{made.etag}"')))

    def _source(self, req: Request) -> tuple[tuple[str, str, Any], Any]:
        """((bucket, key, row), open file) of what is copied."""
        text = urllib.parse.unquote(req.header('x-amz-copy-source') or '')
        path, _, version = text.partition('?')
        if version:
            raise errors.unsupported('A version')
        bucket, _, key = path.removeprefix('/').partition('/')
        row, file = self._store.read(req.project, bucket, key)
        return (bucket, key, row), file

    def head(self, req: Request) -> Answer:
        row = self._store.find(req.project, req.bucket, req.key)
        _check_conditions(req, row)
        return 200, [*_headers_of(row), ('Content-Length', str(row.size))], b''

    def remove(self, req: Request) -> Answer:
        self._store.remove(req.project, req.bucket, [req.key])
        return 204, [], b''

    # ---- uploads in parts

    def begin_upload(self, req: Request) -> Answer:
        ident = self._store.begin_upload(req.project, req.bucket, req.key, _kept(req))
        return _xml('InitiateMultipartUploadResult', (('Bucket', req.bucket), ('Key', req.key), ('UploadId', ident)))

    def put_part(self, req: Request) -> Answer:
        number = req.number('partNumber', 1, stores.MAX_PARTS + 1, 0)
        if not 0 < number <= stores.MAX_PARTS:
            raise errors.S3Error('InvalidArgument', f'partNumber must be 1 to {stores.MAX_PARTS}.')
        place = (req.project, req.bucket, req.key, req.params['uploadId'], number)
        if req.header('x-amz-copy-source') is None:
            body = req.body(stores.MAX_PUT)
            row = self._store.put_part(*place, body, body.length, body.etag)
            return 200, [('ETag', f'"{row.etag}"')], b''
        source, file = self._source(req)
        with file:
            span = _span(req.header('x-amz-copy-source-range'), source[2].size) or (0, source[2].size - 1)
            size, digest = span[1] - span[0] + 1, hashlib.md5(usedforsecurity=False)
            row = self._store.put_part(*place, stores.copied(contents.read(file, span[0], size), digest), size,
                                       digest.hexdigest)
        return _xml('CopyPartResult', (('LastModified', _stamp(row.modified_at)), ('ETag', f'"{row.etag}"')))

    def complete(self, req: Request) -> Answer:
        root = documents.parse(_document(req, documents.MAX_DOCUMENT, sums=False), 'CompleteMultipartUpload')
        documents.only(root, 'Part')
        wanted, whole, sums = [], digests.Sums(digests.sums_of(req.environ)), {}
        for part in root.findall('Part')[:stores.MAX_PARTS + 1]:
            documents.only(part, 'PartNumber', 'ETag', *(f'Checksum{name.upper()}' for name in digests.CHECKSUMS))
            number, etag = part.findtext('PartNumber', ''), part.findtext('ETag', '').strip('"')
            if not re.fullmatch('[0-9]{1,5}', number):
                raise errors.S3Error('MalformedXML', 'A part has no number.')
            wanted.append((int(number), etag))
            sums[int(number)] = digests.Sums({each.tag[8:].lower(): each.text or '' for each in part
                                              if each.tag.startswith('Checksum')})

        def watched(number: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
            for piece in pieces:
                whole.update(piece)
                sums[number].update(piece)
                yield piece
            sums[number].check()
            if number == wanted[-1][0]:
                whole.check()
        size = req.header('x-amz-mp-object-size')
        if size is not None and not re.fullmatch('[0-9]{1,16}', size):
            raise errors.S3Error('InvalidArgument', 'x-amz-mp-object-size is a number of bytes.')
        row = self._store.complete(req.project, req.bucket, req.key, req.params['uploadId'], wanted, watched,
                                   None if size is None else int(size))
        return _xml('CompleteMultipartUploadResult', (
            ('Location', f'/{req.bucket}/{req.key}'), ('Bucket', req.bucket), ('Key', req.key),
            ('ETag', f'"{row.etag}"')))

    def abort(self, req: Request) -> Answer:
        self._store.abort(req.project, req.bucket, req.key, req.params['uploadId'])
        return 204, [], b''

    def list_parts(self, req: Request) -> Answer:
        _row, found = self._store.upload(req.project, req.bucket, req.key, req.params['uploadId'])
        after, most = req.number('part-number-marker', 0, stores.MAX_PARTS, 0), req.number('max-parts', 0, PAGE, PAGE)
        rest = [part for part in found if part.number > after]
        page = rest[:most]
        return _xml('ListPartsResult', (
            ('Bucket', req.bucket), ('Key', req.key), ('UploadId', req.params['uploadId']),
            ('PartNumberMarker', after), ('NextPartNumberMarker', page[-1].number if page else 0), ('MaxParts', most),
            ('IsTruncated', len(rest) > len(page)), *(('Part', [
                ('PartNumber', part.number), ('LastModified', _stamp(part.modified_at)), ('ETag', f'"{part.etag}"'),
                ('Size', part.size)]) for part in page)))

    def list_uploads(self, req: Request) -> Answer:
        prefix = req.params.get('prefix', '')
        if req.params.get('delimiter') or req.params.get('key-marker'):
            raise errors.unsupported('A delimiter or marker of uploads')
        rows = [row for row in self._store.uploads(req.project, req.bucket) if row.key.startswith(prefix)]
        shown = _shown(req.params.get('encoding-type'))
        return _xml('ListMultipartUploadsResult', (
            ('Bucket', req.bucket), ('Prefix', shown(prefix)), ('EncodingType', req.params.get('encoding-type')),
            ('MaxUploads', stores.MAX_UPLOADS), ('IsTruncated', False),
            *(('Upload', [('Key', shown(row.key)), ('UploadId', row.id), ('Initiated', _stamp(row.created_at)),
                          ('StorageClass', 'STANDARD')]) for row in rows)))


# (method, what the path names, parameter of the query): (rule, operation)
OPERATIONS: dict[tuple[str, str, str | None], tuple[str, Callable[[Application, Request], Answer]]] = {
    ('GET', 'service', None): (READ, Application.list_buckets),
    ('PUT', 'bucket', None): (WRITE, Application.make_bucket),
    ('HEAD', 'bucket', None): (READ, Application.head_bucket),
    ('DELETE', 'bucket', None): (WRITE, Application.remove_bucket),
    ('GET', 'bucket', None): (READ, Application.list_objects),
    ('GET', 'bucket', 'location'): (READ, Application.location),
    ('GET', 'bucket', 'versioning'): (READ, Application.versioning),
    ('GET', 'bucket', 'acl'): (READ, Application.acl),
    ('PUT', 'bucket', 'acl'): (WRITE, Application.set_acl),
    ('GET', 'bucket', 'uploads'): (READ, Application.list_uploads),
    ('POST', 'bucket', 'delete'): (WRITE, Application.remove_objects),
    ('GET', 'object', None): (READ, Application.get),
    ('HEAD', 'object', None): (READ, Application.head),
    ('PUT', 'object', None): (WRITE, Application.put),
    ('DELETE', 'object', None): (WRITE, Application.remove),
    ('GET', 'object', 'tagging'): (READ, Application.no_tags),
    ('GET', 'object', 'acl'): (READ, Application.acl),
    ('PUT', 'object', 'acl'): (WRITE, Application.set_acl),
    ('POST', 'object', 'uploads'): (WRITE, Application.begin_upload),
    ('PUT', 'object', 'uploadId'): (WRITE, Application.put_part),
    ('POST', 'object', 'uploadId'): (WRITE, Application.complete),
    ('DELETE', 'object', 'uploadId'): (WRITE, Application.abort),
    ('GET', 'object', 'uploadId'): (READ, Application.list_parts),
}
_SUBS = {sub for _method, _level, sub in OPERATIONS if sub}


def _xml(name: str, parts: Iterable[tuple[str, Any]]) -> Answer:
    return 200, [], documents.render(name, parts)


def _owner(req: Request) -> tuple[str, Any]:
    return 'Owner', [('ID', req.project), ('DisplayName', req.project)]


def _stamp(when: datetime.datetime) -> str:
    return when.replace(microsecond=0).isoformat() + '.000Z'


def _shown(encoding: str | None) -> Callable[[str], str]:
    """How keys are written in lists.

    :raises S3Error: it is no encoding that S3 knows
    """
    if encoding not in (None, 'url'):
        raise errors.S3Error('InvalidArgument', 'encoding-type is url.')
    return urllib.parse.quote if encoding else str


def _document(req: Request, most: int, sums: bool = True) -> bytes:
    """The body of a request that is a document."""
    if not (req.header('content-length') or '').strip('0') and not req.header('x-amz-decoded-content-length'):
        return b''
    return b''.join(req.body(most, sums))


def _kept(req: Request) -> dict[str, str]:
    """The headers of a request that an object keeps."""
    kept = {'content-type': req.header('content-type') or 'binary/octet-stream'}
    kept.update({name: value for name in KEPT if (value := req.header(name)) is not None})
    if 'aws-chunked' in kept.get('content-encoding', ''):
        rest = [each.strip() for each in kept['content-encoding'].split(',') if each.strip() != 'aws-chunked']
        kept.pop('content-encoding')
        kept.update({'content-encoding': ','.join(rest)} if rest else {})
    meta = {name[5:].replace('_', '-').lower(): str(value) for name, value in req.environ.items()
            if name.startswith('HTTP_X_AMZ_META_')}
    if sum(len(name) + len(value) for name, value in meta.items()) > MAX_META:
        raise errors.S3Error('MetadataTooLarge', f'The metadata of an object has {MAX_META} bytes at most.')
    return {name: _plain(value) for name, value in {**kept, **meta}.items()}


def _plain(value: str) -> str:
    """A value that may be sent back as a header."""
    if len(value) > MAX_META or not value.isprintable() or not all(ord(char) < 256 for char in value):
        raise errors.S3Error('InvalidArgument', 'A header is not printable, or too long.')
    return value


def _headers_of(row: Any) -> list[tuple[str, str]]:
    when = email.utils.format_datetime(row.modified_at.replace(microsecond=0, tzinfo=datetime.UTC), usegmt=True)
    return [('ETag', f'"{row.etag}"'), ('Last-Modified', when), ('Accept-Ranges', 'bytes'),
            # what a project keeps is no page of this origin
            ('X-Content-Type-Options', 'nosniff'), ('Content-Security-Policy', 'sandbox'),
            *((name.title() if not name.startswith('x-') else name, value) for name, value in row.headers.items())]


def _span(text: str | None, size: int) -> tuple[int, int] | None:
    """(first, last) byte of a range; None where there is none to heed.

    :raises S3Error: it begins behind the end
    """
    match = re.fullmatch(r'bytes=(\d{0,18})-(\d{0,18})', text or '')
    if not match or not (match[1] or match[2]):
        return None
    first = int(match[1]) if match[1] else max(0, size - int(match[2]))
    last = min(int(match[2]) if match[1] and match[2] else size - 1, size - 1)
    if first >= size or first > last:
        raise errors.S3Error('InvalidRange', 'The range cannot be satisfied.', 416)
    return first, last


def _check_conditions(req: Request, row: Any) -> None:
    """
    :raises S3Error: a header asks for another state of the object
    """
    failed = errors.S3Error('PreconditionFailed', 'A condition of the request does not hold.', 412)
    same, other = req.header('if-match'), req.header('if-none-match')
    changed = row.modified_at.replace(microsecond=0)
    since, until = _date(req.header('if-modified-since')), _date(req.header('if-unmodified-since'))
    if same is not None:
        if not _named(same, row.etag):
            raise failed
    elif until is not None and changed > until:
        raise failed
    if (other is not None and _named(other, row.etag)) or (other is None and since is not None and changed <= since):
        raise errors.S3Error('NotModified', '', 304)


def _check_writes(req: Request) -> None:
    """:raises S3Error: a write has a condition, which would be looked at too early to hold"""
    if req.header('if-match') is not None or req.header('if-none-match') is not None:
        raise errors.unsupported('A condition of a write')


def _named(text: str, etag: str) -> bool:
    return text.strip() == '*' or etag in [each.strip().strip('"') for each in text.split(',')]


def _date(text: str | None) -> datetime.datetime | None:
    try:
        found = email.utils.parsedate_to_datetime(text or '')
    except (ValueError, TypeError):
        return None
    return found.astimezone(datetime.UTC).replace(tzinfo=None) if found.tzinfo else found
