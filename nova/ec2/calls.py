"""Calls of the cloud's services with the token of the user, either in this process or over HTTP."""
from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import io
import re
from typing import Any, Protocol, TYPE_CHECKING, cast
import urllib.parse
from wsgiref.types import WSGIApplication

import orjson

from nova import exception
from nova.api import request as api_request
from nova.ec2 import errors
from nova.json_types import Json
from nova.json_types import JsonDocument
from nova.web import pipeline

if TYPE_CHECKING:
    import requests
    from keystoneauth1.identity.base import BaseIdentityPlugin
    from keystoneauth1.session import Session

    from nova.identity.embedded.service import IdentityService
    from nova.identity.signatures import SignedRequest

COMPUTE_VERSION = '2.91'              # the newest version in which ``POST /os-keypairs`` generates key pairs
VOLUME_VERSION = '3.65'               # the newest version that accepts 'force' for snapshots of attached volumes
# {service: (path in an all-in-one, service types in the catalog, path below the endpoint)}
SERVICES = {
    'compute': ('/compute/v2.1', ('compute',), ''),
    'image': ('/image/v2', ('image',), '/v2'),
    'network': ('/network/v2.0', ('network',), '/v2.0'),
    'volume': ('/volume/v3', ('block-storage', 'volumev3'), ''),
    'object': ('/objectstore', ('s3',), ''),
}
Query = Mapping[str, str | int | Sequence[str]]            # parameters of a query string
Document = JsonDocument | Sequence[JsonDocument]         # JSON body of a request
PIECE = 1 << 16                       # bytes
_NAMED = re.compile('/[^/?]+/[^/?]+')  # path of a resource: collection and id
AUTH_FAILURE = ('AuthFailure', 'The signature, its time or the access key is not valid.', 401)


@dataclasses.dataclass(frozen=True)
class User:
    """The user who signed a request.

    catalog   service catalog of the user's token, if services are called over HTTP
    """

    token: str
    user_id: str
    project_id: str
    roles: tuple[str, ...]
    catalog: Any = None


class Body:
    """File-like request body that is generated during the upload.

    :param size: bytes of all pieces
    """

    def __init__(self, pieces: Iterator[bytes], size: int) -> None:
        self._pieces, self._size, self._held = pieces, size, b''
        self.error: Exception | None = None         # exception that ``pieces`` has raised

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes]:
        while piece := self.read(PIECE):
            yield piece

    def read(self, length: int = -1) -> bytes:
        """Read at most ``length`` bytes; empty at the end.

        :raises OSError: the pieces raised an exception; see ``error``
        """
        try:
            while not self._held:
                self._held = next(self._pieces)
        except StopIteration:
            return b''
        except Exception as error:
            self.error = error
            raise OSError('The upload was interrupted.') from None
        length = len(self._held) if length < 0 else length
        piece, self._held = self._held[:length], self._held[length:]
        return piece


class Services(Protocol):
    """Access to the services of a cloud."""

    def user_of(self, signed: SignedRequest, address: str) -> User:
        """Authenticate a signed request.

        :param signed: see ``signing.signed_of``
        :param address: address of the client
        :raises Ec2Error: AuthFailure
        """

    def send(self, user: User, service: str, method: str, path: str, headers: dict[str, str],
             body: bytes | Body | None) -> tuple[int, bytes]:
        """Send a request; return (HTTP status code, body).

        :param service: key of SERVICES
        :param path: path below the service's version, with the query
        :raises Ec2Error: the service is unavailable
        """

    def read(self, user: User, service: str, path: str, headers: dict[str, str]) -> Generator[Any]:
        """Send a GET request; yield the HTTP status code, then the pieces of the body.

        :raises Ec2Error: see ``send``
        """


class Caller:
    """Calls the services as one user during one EC2 request.

    :param services: Services
    :param facts: headers of each call: request ID and client address
    :param before_write: callback of a dry run, called with (service, method, path, body) before a call that may change
     something, and without arguments before a write to tables of the EC2 API; raises Ec2Error to stop the request
    :param rest: called after each call; lets requests of other projects run
    """

    def __init__(self, services: Services, user: User, facts: dict[str, str],
                 before_write: Callable[..., None] | None = None, rest: Callable[[], None] = lambda: None) -> None:
        self._rest = rest
        self._services, self.user, self._facts = services, user, facts
        self._before_write = before_write or (lambda *_call: None)
        self.dry = before_write is not None

    def writes(self, service: str | None = None, method: str = '', path: str = '',
               body: Document | Body | None = None) -> None:
        """Call ``before_write`` before a write; it raises Ec2Error in a dry run."""
        self._before_write(service, method, path, body)

    def call(self, service: str, method: str, path: str, body: Document | Body | None = None,
             query: Query | None = None,
             headers: dict[str, str] | None = None, hidden: bool = False) -> Any:
        """Call a service and return the document of its response, or None if there is no body.

        :param hidden: the caller may write to the resource but not read it
        :raises ServiceRefused: an error response
        """
        if method != 'GET':
            if self.dry and not hidden:
                self._look_up(service, path)
            self.writes(service, method, path, body)
        sent = self._headers(service, headers)
        data: bytes | Body | None = None
        if isinstance(body, Body):
            data, sent['Content-Type'] = body, 'application/octet-stream'
        elif body is not None:
            data = orjson.dumps(body)
            sent.setdefault('Content-Type', 'application/json')
        if query:
            path += '?' + urllib.parse.urlencode(query, doseq=True)
        status, text = self._services.send(self.user, service, method, path, sent, data)
        self._rest()
        document = _document(text)
        if status >= 400:
            raise errors.ServiceRefused(status, _message(document))
        return document

    def _look_up(self, service: str, path: str) -> None:
        """In a dry run, GET the resource in the URL path of a write: a missing resource raises the service's error.

        :raises ServiceRefused: the resource is not visible to the caller
        """
        named = _NAMED.match(path)
        if named:
            self.call(service, 'GET', named[0])

    def read(self, service: str, path: str, most: int) -> Iterator[bytes]:
        """Yield the pieces of a response body.

        :param most: maximum number of bytes
        :raises ServiceRefused: an error response
        :raises Ec2Error: the body is too long, or incomplete
        """
        with contextlib.closing(self._services.read(self.user, service, path, self._headers(service))) as answer:
            status = next(answer)
            if status != 200:
                raise errors.ServiceRefused(status, 'The service refused the request.')
            for piece in answer:
                most -= len(piece)
                if most < 0:
                    raise errors.Ec2Error('InvalidParameterValue', 'An object is larger than expected.')
                yield piece

    def _headers(self, service: str, more: dict[str, str] | None = None) -> dict[str, str]:
        versions = {'compute': f'compute {COMPUTE_VERSION}', 'volume': f'volume {VOLUME_VERSION}'}
        sent = {'X-Auth-Token': self.user.token, 'Accept': 'application/json', **self._facts, **(more or {})}
        if service in versions:
            sent.setdefault('OpenStack-API-Version', versions[service])
        return sent


def _document(text: bytes) -> Json:
    try:
        return orjson.loads(text) if text else None
    except ValueError:
        return None


def _message(document: Json) -> str:
    """Return the message of an error response; the services use different formats."""
    if isinstance(document, dict) and len(document) == 1:
        document = next(iter(document.values()))
    if isinstance(document, dict) and isinstance(document.get('message'), str):
        return str(document['message'])
    return 'The service refused the request.'


class LocalServices:
    """Services of an all-in-one, called in this process.

    :param application: WSGI application with all services
    :param identity: nova.identity.embedded.service.IdentityService
    :param absent: members of SERVICES that the application does not have
    """

    def __init__(self, application: WSGIApplication, identity: IdentityService, absent: Collection[str] = ()) -> None:
        self._application, self._identity, self._absent = application, identity, frozenset(absent)

    def user_of(self, signed: SignedRequest, address: str) -> User:
        try:
            token, data = self._identity.signed.authenticate(signed, address, shared=True)
        except exception.Unauthorized:
            raise errors.Ec2Error(*AUTH_FAILURE) from None
        except (exception.TooManyRequests, exception.Unavailable) as error:
            raise errors.Ec2Error('RequestLimitExceeded', error.message, 503) from None
        assert data.project_id is not None      # EC2 credentials belong to a project
        return User(token, data.user_id, data.project_id, data.roles)

    def send(self, user: User, service: str, method: str, path: str, headers: dict[str, str],
             body: bytes | Body | None) -> tuple[int, bytes]:
        answer = self._open(service, method, path, headers, body)
        status = next(answer)
        return status, b''.join(answer)

    def read(self, user: User, service: str, path: str, headers: dict[str, str]) -> Generator[Any]:
        return self._open(service, 'GET', path, headers, None)

    def _open(self, service: str, method: str, path: str, headers: dict[str, str],
              body: bytes | Body | None) -> Generator[Any]:
        if service in self._absent:
            raise errors.NoService(service)
        address, _, query = path.partition('?')
        environ = {
            'REQUEST_METHOD': method, 'SCRIPT_NAME': '', 'QUERY_STRING': query,
            'PATH_INFO': urllib.parse.unquote(SERVICES[service][0] + address, encoding='latin-1'),
            'SERVER_NAME': 'localhost', 'SERVER_PORT': '0', 'SERVER_PROTOCOL': 'HTTP/1.1',
            'REMOTE_ADDR': headers.pop('X-Remote-Address', ''), 'CONTENT_LENGTH': str(len(body or b'')),
            'CONTENT_TYPE': headers.pop('Content-Type', ''),
            'wsgi.version': (1, 0), 'wsgi.url_scheme': 'http',
            'wsgi.input': body if isinstance(body, Body) else io.BytesIO(body or b''),
            'wsgi.errors': io.StringIO(), 'wsgi.multithread': True, 'wsgi.multiprocess': False, 'wsgi.run_once': False,
            api_request.EC2: True,
        }
        environ.update(('HTTP_' + name.upper().replace('-', '_'), value) for name, value in headers.items())
        started = pipeline.Started()
        answer = self._application(environ, started)
        try:
            yield started.code
            yield from answer
        finally:
            getattr(answer, 'close', lambda: None)()


class RemoteServices:
    """Services of a deployment of several hosts, called at the endpoints in the user's catalog.

    :param session: keystoneauth1 session of this service's account, which may check signatures
    :param interface, region: interface and region of the endpoints
    :param timeout: timeout of one response in seconds
    """

    def __init__(self, session: Session, interface: str, region: str | None, timeout: float) -> None:
        self._session, self._interface, self._region, self._timeout = session, interface, region, timeout

    def user_of(self, signed: SignedRequest, address: str) -> User:
        answer = self._request(f'{self._identity_url()}/ec2tokens', 'POST', authenticated=True,
                               json={'credentials': signed}, headers={'X-Forwarded-For': address})
        if answer.status_code in (400, 401, 403, 404):
            raise errors.Ec2Error(*AUTH_FAILURE)
        if answer.status_code != 200:
            raise errors.Ec2Error('Unavailable', 'The Identity service cannot check signatures now.', 503)
        token = answer.json()['token']
        return User(answer.headers['X-Subject-Token'], token['user']['id'], token['project']['id'],
                    tuple(role['name'] for role in token['roles']), token.get('catalog'))

    @property
    def _auth(self) -> BaseIdentityPlugin:
        return cast('BaseIdentityPlugin', self._session.auth)       # ec2_account.session_of always sets auth

    def _identity_url(self) -> str:
        return str(self._auth.auth_url).rstrip('/').removesuffix('/v3') + '/v3'

    def send(self, user: User, service: str, method: str, path: str, headers: dict[str, str],
             body: bytes | Body | None) -> tuple[int, bytes]:
        headers.pop('X-Remote-Address', None)
        if service == 'compute':         # the API accepts launch attributes only with this token
            headers.update(self._as_service())
        answer = self._request(self._endpoint(user, service) + path, method, authenticated=False, data=body,
                               headers=headers)
        return answer.status_code, answer.content

    def read(self, user: User, service: str, path: str, headers: dict[str, str]) -> Generator[Any]:
        import requests
        headers.pop('X-Remote-Address', None)
        # no compression, so that the limit of ``Caller.read`` applies to the transferred bytes
        with self._request(self._endpoint(user, service) + path, 'GET', authenticated=False, stream=True,
                           headers={**headers, 'Accept-Encoding': 'identity'}) as answer:
            yield answer.status_code
            try:
                yield from answer.iter_content(PIECE)
            except requests.RequestException:
                raise errors.Ec2Error('Unavailable', 'A required service does not respond.',
                                      503) from None

    def _endpoint(self, user: User, service: str) -> str:
        _path, types, below = SERVICES[service]
        for entry in user.catalog or ():
            for endpoint in entry['endpoints'] if entry['type'] in types else ():
                if endpoint['interface'] == self._interface and self._region in (None, endpoint['region_id']):
                    url = str(endpoint['url']).rstrip('/')
                    return url if url.endswith(below) else url + below
        raise errors.NoService(service)

    def _as_service(self) -> dict[str, str]:
        """Return the header with the token of this service's account; the session caches the token.

        Return {} if the account lacks the role ``service``: the compute API would refuse requests with that token.
        """
        with _availability():
            access = self._auth.get_access(self._session)
            return {'X-Service-Token': str(access.auth_token)} if 'service' in (access.role_names or ()) else {}

    def _request(self, url: str, method: str, **settings: Any) -> requests.Response:
        with _availability():
            return self._session.request(url, method, raise_exc=False, timeout=self._timeout, redirect=False,
                                         **settings)


@contextlib.contextmanager
def _availability() -> Iterator[None]:
    """Convert client errors.

    :raises Ec2Error: a service does not respond
    """
    from keystoneauth1 import exceptions
    try:
        yield
    except exceptions.ClientException:
        raise errors.Ec2Error('Unavailable', 'A required service does not respond.', 503) from None
