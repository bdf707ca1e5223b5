"""The services of the cloud, called as the user who asks: in this process, or over HTTP."""
from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator
import contextlib
import dataclasses
import io
import re
from typing import Any, Protocol
import urllib.parse

import orjson

from nova.api import request as api_request
from nova.api.ec2 import errors

COMPUTE_VERSION = '2.91'              # the newest that makes key pairs, see ``POST /os-keypairs``
VOLUME_VERSION = '3.65'               # the newest at which a snapshot of an attached volume takes 'force'
# service: (path of the all-in-one, types in a catalog, path below the endpoint there)
SERVICES = {
    'compute': ('/compute/v2.1', ('compute',), ''),
    'image': ('/image/v2', ('image',), '/v2'),
    'network': ('/network/v2.0', ('network',), '/v2.0'),
    'volume': ('/volume/v3', ('block-storage', 'volumev3'), ''),
    'object': ('/objectstore', ('s3',), ''),
}
PIECE = 1 << 16                       # bytes
_NAMED = re.compile('/[^/?]+/[^/?]+')  # a collection and a thing of it
AUTH_FAILURE = ('AuthFailure', 'The signature, its time or the access key is not valid.', 401)


@dataclasses.dataclass(frozen=True)
class User:
    """Who has signed a request.

    catalog   of his token, where services are called over HTTP
    """

    token: str
    user_id: str
    project_id: str
    roles: tuple[str, ...]
    catalog: Any = None


class Body:
    """What is uploaded while it is made: a file, as WSGI and HTTP clients read it.

    :param size: bytes of all pieces
    """

    def __init__(self, pieces: Iterator[bytes], size: int) -> None:
        self._pieces, self._size, self._held = pieces, size, b''
        self.error: Exception | None = None         # of the pieces, where they broke off

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes]:
        while piece := self.read(PIECE):
            yield piece

    def read(self, length: int = -1) -> bytes:
        """At most so many bytes; none at the end.

        :raises OSError: the pieces broke off; see ``error``
        """
        try:
            while not self._held:
                self._held = next(self._pieces)
        except StopIteration:
            return b''
        except Exception as error:
            self.error = error
            raise OSError('The upload broke off.') from None
        length = len(self._held) if length < 0 else length
        piece, self._held = self._held[:length], self._held[length:]
        return piece


class Services(Protocol):
    """How the services of a cloud are reached."""

    def user_of(self, signed: dict[str, Any], address: str) -> User:
        """Who has signed a request.

        :param signed: see ``signing.signed_of``
        :param address: where it comes from
        :raises Ec2Error: AuthFailure
        """

    def send(self, user: User, service: str, method: str, path: str, headers: dict[str, str],
             body: bytes | Body | None) -> tuple[int, bytes]:
        """One request: (HTTP code, body).

        :param service: of SERVICES
        :param path: below the service's version, with its query
        :raises Ec2Error: the service is not there
        """

    def read(self, user: User, service: str, path: str, headers: dict[str, str]) -> Generator[Any]:
        """What a service sends: first the HTTP code, then the pieces of the body.

        :raises Ec2Error: as for ``send``
        """


class Caller:
    """The services, as one user calls them during one request.

    :param services: Services
    :param facts: headers of each call: the request's id and the client's address
    :param before_write: called with (service, method, path, body) before a call that may change something, or with
        nothing before a write of the EC2 API itself; raises Ec2Error where it shall not be: of a dry run
    :param rest: called after each call: it lets requests of other projects go first
    """

    def __init__(self, services: Services, user: User, facts: dict[str, str],
                 before_write: Callable[..., None] | None = None, rest: Callable[[], None] = lambda: None) -> None:
        self._rest = rest
        self._services, self.user, self._facts = services, user, facts
        self._before_write = before_write or (lambda *_call: None)
        self.dry = before_write is not None

    def writes(self, *call: Any) -> None:
        """Something is about to change: raise where it shall not, see ``before_write``."""
        self._before_write(*call)

    def call(self, service: str, method: str, path: str, body: Any = None, query: dict[str, Any] | None = None,
             headers: dict[str, str] | None = None, hidden: bool = False) -> Any:
        """The document of an answer; None where it has none.

        :param hidden: the caller may write to what the path names, and may not read it
        :raises ServiceRefused: it is an error
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
        """Read the thing that a write names in its path, which the service looks up before it writes.

        :raises ServiceRefused: the caller has no such thing
        """
        named = _NAMED.match(path)
        if named:
            self.call(service, 'GET', named[0])

    def read(self, service: str, path: str, most: int) -> Iterator[bytes]:
        """The pieces of what a service sends.

        :param most: bytes
        :raises ServiceRefused: it is an error
        :raises Ec2Error: there are more bytes, or they break off
        """
        with contextlib.closing(self._services.read(self.user, service, path, self._headers(service))) as answer:
            status = next(answer)
            if status != 200:
                raise errors.ServiceRefused(status, 'The service refused the request.')
            for piece in answer:
                most -= len(piece)
                if most < 0:
                    raise errors.Ec2Error('InvalidParameterValue', 'An object is larger than it may be.')
                yield piece

    def _headers(self, service: str, more: dict[str, str] | None = None) -> dict[str, str]:
        versions = {'compute': f'compute {COMPUTE_VERSION}', 'volume': f'volume {VOLUME_VERSION}'}
        sent = {'X-Auth-Token': self.user.token, 'Accept': 'application/json', **self._facts, **(more or {})}
        if service in versions:
            sent.setdefault('OpenStack-API-Version', versions[service])
        return sent


def _document(text: bytes) -> Any:
    try:
        return orjson.loads(text) if text else None
    except ValueError:
        return None


def _message(document: Any) -> str:
    """The sentence of a fault, in any of the forms that the services have."""
    if isinstance(document, dict) and len(document) == 1:
        document = next(iter(document.values()))
    if isinstance(document, dict) and isinstance(document.get('message'), str):
        return str(document['message'])
    return 'The service refused the request.'


class LocalServices:
    """The services of an all-in-one, called in its process.

    :param application: WSGI application that has them all
    :param identity: nova.identity.embedded.service.IdentityService
    :param absent: those of SERVICES that the application does not have
    """

    def __init__(self, application: Any, identity: Any, absent: Collection[str] = ()) -> None:
        self._application, self._identity, self._absent = application, identity, frozenset(absent)

    def user_of(self, signed: dict[str, Any], address: str) -> User:
        from nova import exception
        try:
            token, data = self._identity.signed.authenticate(signed, address, shared=True)
        except exception.Unauthorized:
            raise errors.Ec2Error(*AUTH_FAILURE) from None
        except (exception.TooManyRequests, exception.Unavailable) as error:
            raise errors.Ec2Error('RequestLimitExceeded', error.message, 503) from None
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
        status = []
        answer = self._application(environ, lambda line, _headers, _error=None: status.append(int(line[:3])))
        try:
            yield status[-1]
            yield from answer
        finally:
            getattr(answer, 'close', lambda: None)()


class RemoteServices:
    """The services of a fleet, at the endpoints of the user's catalog.

    :param session: keystoneauth1 session of this service's own account, which may check signatures
    :param interface, region: of the endpoints
    :param timeout: seconds for one answer
    """

    def __init__(self, session: Any, interface: str, region: str | None, timeout: float) -> None:
        self._session, self._interface, self._region, self._timeout = session, interface, region, timeout

    def user_of(self, signed: dict[str, Any], address: str) -> User:
        answer = self._request(f'{self._identity_url()}/ec2tokens', 'POST', authenticated=True,
                               json={'credentials': signed}, headers={'X-Forwarded-For': address})
        if answer.status_code in (400, 401, 403, 404):
            raise errors.Ec2Error(*AUTH_FAILURE)
        if answer.status_code != 200:
            raise errors.Ec2Error('Unavailable', 'The Identity service does not check signatures now.', 503)
        token = answer.json()['token']
        return User(answer.headers['X-Subject-Token'], token['user']['id'], token['project']['id'],
                    tuple(role['name'] for role in token['roles']), token.get('catalog'))

    def _identity_url(self) -> str:
        return str(self._session.auth.auth_url).rstrip('/').removesuffix('/v3') + '/v3'

    def send(self, user: User, service: str, method: str, path: str, headers: dict[str, str],
             body: bytes | Body | None) -> tuple[int, bytes]:
        headers.pop('X-Remote-Address', None)
        if service == 'compute':         # it shows a service how the user's servers were launched
            headers.update(self._as_service())
        answer = self._request(self._endpoint(user, service) + path, method, authenticated=False, data=body,
                               headers=headers)
        return answer.status_code, answer.content

    def read(self, user: User, service: str, path: str, headers: dict[str, str]) -> Generator[Any]:
        import requests
        headers.pop('X-Remote-Address', None)
        # Without an encoding: what is counted is what comes.
        with self._request(self._endpoint(user, service) + path, 'GET', authenticated=False, stream=True,
                           headers={**headers, 'Accept-Encoding': 'identity'}) as answer:
            yield answer.status_code
            try:
                yield from answer.iter_content(PIECE)
            except requests.RequestException:
                raise errors.Ec2Error('Unavailable', 'A service that this request needs does not answer.',
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
        """The header with the token of this service's own account, which the session keeps.

        Without the role ``service`` the compute API refuses the token, and with it the request.
        """
        with _availability():
            access = self._session.auth.get_access(self._session)
            return {'X-Service-Token': str(access.auth_token)} if 'service' in access.role_names else {}

    def _request(self, url: str, method: str, **settings: Any) -> Any:
        with _availability():
            return self._session.request(url, method, raise_exc=False, timeout=self._timeout, redirect=False,
                                         **settings)


@contextlib.contextmanager
def _availability() -> Iterator[None]:
    """:raises Ec2Error: a service does not answer"""
    from keystoneauth1 import exceptions
    try:
        yield
    except exceptions.ClientException:
        raise errors.Ec2Error('Unavailable', 'A service that this request needs does not answer.', 503) from None
