"""S3 over HTTP: verify the signature, find the user, check the policy rule, run the operation, return XML or bytes."""
from collections.abc import Callable, Iterable
import dataclasses
import logging
from wsgiref.types import StartResponse, WSGIEnvironment
from typing import Protocol

from nova import context
from nova import exception
from nova import utils
from nova.db.audit import log
from nova.objectstore import access
from nova.objectstore import audit
from nova.objectstore import buckets
from nova.objectstore import digests
from nova.objectstore import documents
from nova.objectstore import errors
from nova.objectstore import headers
from nova.objectstore import objects
from nova.objectstore import payload
from nova.objectstore import signing
from nova.objectstore import store as stores
from nova.objectstore import uploads
from nova.objectstore.request import Answer
from nova.objectstore.request import Request
from nova.runtime.http import priorities
from nova.web.request import Stream

LOG = logging.getLogger(__name__)

READ, WRITE = 'objectstore:read', 'objectstore:write'
# Query parameters of unsupported S3 features; a request with one of them is refused.
ELSE = {'accelerate', 'analytics', 'attributes', 'cors', 'encryption', 'intelligent-tiering', 'inventory', 'legal-hold',
        'lifecycle', 'logging', 'metrics', 'notification', 'object-lock', 'ownershipControls', 'partNumber', 'policy',
        'policyStatus', 'publicAccessBlock', 'replication', 'requestPayment', 'restore', 'retention', 'select',
        'session', 'tagging', 'torrent', 'versionId', 'versions', 'website'}
REFUSED_HEADERS = ('x-amz-server-side-encryption', 'x-amz-tagging', 'x-amz-object-lock', 'x-amz-grant-',
                   'x-amz-website-redirect-location', 'x-amz-copy-source-server-side', 'x-amz-write-offset-bytes',
                   'x-amz-bucket-object-lock', 'x-amz-if-match-')
OWNERS = ('x-amz-expected-bucket-owner', 'x-amz-source-expected-bucket-owner')


@dataclasses.dataclass(frozen=True)
class User:
    """The user who signed a request."""

    user_id: str
    project_id: str
    roles: tuple[str, ...]


class Callers(Protocol):
    """Authentication with the Identity service."""

    def signer(self, signed: signing.Signed, address: str) -> User:
        """Return the user who signed a request.

        :raises S3Error: the signature is invalid, or cannot be checked
        """

    def key(self, access: str, scope: str) -> bytes:
        """Return the signing key of a scope, to verify the chunks of a request.

        :raises S3Error: unknown access key, or the key cannot be read
        """

    def owner(self, token: str) -> User:
        """Return the user of a token.

        :raises S3Error: the token is invalid, not project-scoped, or cannot be checked
        """


# (method, resource in the path, query parameter): (rule, operation)
OPERATIONS: dict[tuple[str, str, str | None], tuple[str, Callable[[Request], Answer]]] = {
    ('GET', 'service', None): (READ, buckets.list_buckets),
    ('PUT', 'bucket', None): (WRITE, buckets.make_bucket),
    ('HEAD', 'bucket', None): (READ, buckets.head_bucket),
    ('DELETE', 'bucket', None): (WRITE, buckets.remove_bucket),
    ('GET', 'bucket', None): (READ, buckets.list_objects),
    ('GET', 'bucket', 'location'): (READ, buckets.location),
    ('GET', 'bucket', 'versioning'): (READ, buckets.versioning),
    ('GET', 'bucket', 'acl'): (READ, access.acl),
    ('PUT', 'bucket', 'acl'): (WRITE, access.set_acl),
    ('GET', 'bucket', 'uploads'): (READ, uploads.list_uploads),
    ('POST', 'bucket', 'delete'): (WRITE, buckets.remove_objects),
    ('GET', 'object', None): (READ, objects.get),
    ('HEAD', 'object', None): (READ, objects.head),
    ('PUT', 'object', None): (WRITE, objects.put),
    ('DELETE', 'object', None): (WRITE, objects.remove),
    ('GET', 'object', 'tagging'): (READ, objects.no_tags),
    ('GET', 'object', 'acl'): (READ, access.acl),
    ('PUT', 'object', 'acl'): (WRITE, access.set_acl),
    ('POST', 'object', 'uploads'): (WRITE, uploads.begin_upload),
    ('PUT', 'object', 'uploadId'): (WRITE, uploads.put_part),
    ('POST', 'object', 'uploadId'): (WRITE, uploads.complete),
    ('DELETE', 'object', 'uploadId'): (WRITE, uploads.abort),
    ('GET', 'object', 'uploadId'): (READ, uploads.list_parts),
}
_SUBS = {sub for _method, _level, sub in OPERATIONS if sub}


class Application:
    """WSGI application of the object store.

    :param callers: authentication
    :param allows: function(User, rule) -> bool according to the policy
    :param region: region of all buckets
    :param finish: function(record, status code) that stores the audit record of a write
    """

    def __init__(self, store: stores.Store, callers: Callers, allows: Callable[[User, str], bool],
                 region: str, finish: audit.Finish) -> None:
        self._store, self._callers, self._allows, self._region = store, callers, allows, region
        self._finish = finish

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        request_id = environ.setdefault('openstack.request_id', context.new_request_id())
        context.RequestContext(request_id=request_id, remote_address=environ.get('REMOTE_ADDR'), overwrite=True)
        refused: errors.S3Error | None = None
        records: list[log.Record] = []
        try:
            status, headers, body = self._serve(environ, records)
        except errors.S3Error as error:
            refused = error
        except exception.ServiceBusy as error:
            refused = errors.S3Error('SlowDown', error.message, 503)
        except exception.InsufficientStorage:
            refused = errors.S3Error('ServiceUnavailable', 'The store has no free space.', 507)
        except (exception.BadRequest, exception.TooLarge):
            refused = errors.S3Error('IncompleteBody', 'The body of the request is incomplete.')
        except Exception:
            LOG.exception('Object store request failed')
            refused = errors.S3Error('InternalError', 'An internal error has occurred.', 500)
        if refused is not None:
            status, headers, body = refused.status, [], b'' if refused.status == 304 else documents.render(
                'Error', (('Code', refused.code), ('Message', refused.message), ('RequestId', request_id)), False)
        for record in records:
            record.values['reason'] = refused.code if refused is not None else None
            self._finish(record, status)
        names = {name for name, _value in headers}
        if isinstance(body, bytes):
            if body and 'Content-Type' not in names:
                headers = [*headers, ('Content-Type', 'application/xml')]
            if 'Content-Length' not in names and status not in (204, 304):
                headers = [*headers, ('Content-Length', str(len(body)))]
        start_response(f'{status} {errors.PHRASES.get(status, "Error")}', [*headers, ('x-amz-request-id', request_id)])
        return body if isinstance(body, Stream) else [body]

    def _serve(self, environ: WSGIEnvironment, records: list[log.Record]) -> Answer:
        """Serve a request.

        :param records: receives the audit record of a write as soon as operation and user are known
        """
        params = signing.pairs_of(environ)
        signed, user = self._caller(environ, params)
        context.set_caller(user.user_id, user.project_id)
        priorities.join(environ, user.project_id)
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
        req = Request(self._store, self._region, environ, user.project_id, bucket, key, params,
                      self._chain(environ, signed), record)
        if req.header('x-amz-acl') not in (None, *access.OWN_ACLS) or req.header('x-amz-storage-class') not in (
                None, 'STANDARD'):
            raise errors.unsupported('An ACL for other accounts, or a storage class,')
        if any(req.header(name) not in (None, user.project_id) for name in OWNERS):
            raise errors.S3Error('AccessDenied', 'The bucket has another owner than the expected one.', 403)
        if rule == WRITE:
            headers.check_write(req)
        answer: Answer = operation(req)
        return answer

    def _chain(self, environ: WSGIEnvironment, signed: signing.Signed | None) -> digests.Chain | None:
        kind = digests.header_of(environ, 'x-amz-content-sha256') or ''
        if signed is None or not signed.scope or not payload.FRAMED.get(kind, (False, False))[0]:
            return None
        return digests.Chain(self._callers.key(signed.access, signed.scope), signed.text, signed.signature)

    def _caller(self, environ: WSGIEnvironment, params: dict[str, str]) -> tuple[signing.Signed | None, User]:
        """Return (signed request, user). A read may have a token instead of a signature, for services that act on
        behalf of a user.
        """
        token = environ.get('HTTP_X_AUTH_TOKEN')
        if token and 'HTTP_AUTHORIZATION' not in environ:
            if environ['REQUEST_METHOD'] not in ('GET', 'HEAD'):
                raise errors.S3Error('AccessDenied', 'Tokens are only accepted for reads; sign other requests.', 403)
            return None, self._callers.owner(token)
        signed = signing.signed_of(environ, params, utils.utcnow())
        return signed, self._callers.signer(signed, environ.get('REMOTE_ADDR') or '')
