"""HTTP application built from Route rows. Every API processes its requests in the same steps.

Steps: path → its routes → version → caller → policy → query and body → handler → response. A step refuses a request by
raising an exception, which the API converts to a fault document.
"""
import collections.abc
import functools
import http
import typing
from wsgiref.types import StartResponse, WSGIEnvironment

from nova import exception
from nova import utils
from nova.db import spare_room
from nova.json_types import Json
from nova.runtime import memory
from nova.web import bodies
from nova.web import mapper as mappers
from nova.web.request import BaseRequest
from nova.web.request import Content
from nova.web.request import Headers
from nova.web.request import Response
from nova.web.request import Stream
from nova.web.request import decoded_path
from nova.web.routes import Route

JSON = 'application/json'
_BODIES = ('POST', 'PUT', 'PATCH')
_STATUS = {status.value: f'{status.value} {status.phrase}' for status in http.HTTPStatus}
_NO_CONTENT = (204, 304)

Parts = dict[str, str]
Work = collections.abc.Callable[[], Response | Content]
R = typing.TypeVar('R', bound=BaseRequest)    # request class of an API's handlers


class Api(typing.Generic[R]):
    """Methods that APIs override; this base class has the defaults.

    :param routes: Route rows
    :cvar content_type: media type of the API's documents
    :cvar max_body: maximum size of a request document in bytes
    :cvar stores_data: POST, PUT and PATCH store data, so they are refused while disk space is short. Set it
     to False in an API that also deletes with these methods.
    """

    content_type = JSON
    stores_data = True
    max_body = 256 * 1024

    def __init__(self, routes: collections.abc.Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self.mapper = mappers.Mapper(self.routes)

    def path(self, environ: WSGIEnvironment) -> str:
        """Return the decoded path of a request.

        :raises NotFound: the path is not text
        """
        try:
            return decoded_path(environ)
        except exception.BadRequest:
            raise exception.NotFound() from None

    def request(self, environ: WSGIEnvironment) -> R:
        """Build the request object for the handlers."""
        return typing.cast(R, BaseRequest(environ))

    def find(self, req: R) -> tuple[mappers.Methods | None, list[str]] | Response:
        """Find the routes and the path parameters of a request, or return a response if the request needs no route.

        :raises NotFound: no resource can have this path
        """
        return self.mapper.find(segments_of(req.path), req.method)

    def negotiate(self, req: R) -> None:
        """Set the version of a request whose path is known."""

    def refuse_method(self, req: R, methods: mappers.Methods) -> Exception:
        """Build the error for a method that the path does not support."""
        return exception.MethodNotAllowed(allow=sorted(methods))

    def admit(self, req: R, row: Route, parts: Parts) -> None:
        """Refuse a caller before the body is read.

        :param row: first row of the path and method
        :param parts: {name: value} of the path parameters
        """

    def read(self, req: R, row: Route) -> bytes:
        """Read and return the body; b'' if no route of the path and method takes a body."""
        return bodies.read(req.environ, self.max_body) if row.body is not None or row.action is not None else b''

    def authorize(self, req: R, row: Route, parts: Parts) -> None:
        """Authorize the caller for the operation and start its audit record."""

    def parse(self, raw: bytes) -> Json:
        """Parse a body.

        :raises BadRequest: the body is malformed
        """
        return bodies.parse(raw)

    def check(self, req: R, row: Route, parts: Parts) -> None:
        """Refuse a valid body for reasons that its schema cannot express."""

    def perform(self, req: R, raw: bytes, work: Work) -> Response:
        """Run an operation and return its response.

        :param work: runs the handler without arguments
        """
        return self.answer(req, work())

    def answer(self, req: R, result: Response | Content) -> Response:
        """Complete a handler's result with the status code of the route and the headers of the API."""
        if req.route is not None and req.route.answer is not None and not isinstance(result, Response):
            result = req.route.answer.render(req, result)
        response = result if isinstance(result, Response) else Response(result)
        code = response.status or (req.route.code(req.version) if req.route is not None else http.HTTPStatus.OK)
        return Response(response.body, code, [*response.headers, *self.headers(req)], response.brief)

    def set_retry_path(self, req: R) -> bool:
        """Change the path of a request that got 404 and return True, or return False if there is no other path."""
        return False

    def fault(self, req: R, error: Exception) -> Response:
        """Build the response to an error; its body is JSON-able."""
        raise NotImplementedError

    def headers(self, req: R) -> Headers:
        """Return extra headers for the response of an operation."""
        return ()

    def finish(self, req: R, code: int, headers: Headers, error: Exception | None) -> Headers:
        """Return extra headers for every response. Called once, before the response is sent."""
        return ()


class Application:
    """WSGI callable of an API.

    Middleware must store the caller in ``environ['nova.context']``.

    :param api: Api
    """

    def __init__(self, api: Api[typing.Any]) -> None:
        self.api = api

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> collections.abc.Iterable[bytes]:
        api, refused = self.api, None
        req = api.request(environ)
        try:
            req.path = api.path(environ)
            with spare_room.for_request(api.stores_data and environ['REQUEST_METHOD'] in _BODIES):
                try:
                    response = self._serve(req)
                except exception.NotFound:
                    if not api.set_retry_path(req):
                        raise
                    response = self._serve(req)
                body = _encoded(response.body)
        except Exception as error:
            refused, response = error, api.fault(req, error)
            body = _encoded(response.body)
        code = response.status or 200
        headers = [*response.headers, *api.finish(req, code, response.headers, refused)]
        headers += _content_headers(api, code, body, headers)
        start_response(_STATUS.get(code) or f'{code} Unknown', headers)
        if environ['REQUEST_METHOD'] == 'HEAD':
            if isinstance(body, Stream):
                body.close()
            return []
        return body if isinstance(body, Stream) else [body]

    def _serve(self, req: BaseRequest) -> Response:
        api = self.api
        found = api.find(req)
        if isinstance(found, Response):
            return found
        methods, values = found
        if methods is None:
            raise exception.NotFound()
        rows = methods.get(req.method)
        if rows is None:
            raise api.refuse_method(req, methods)
        api.negotiate(req)
        row, names = rows[0]
        api.admit(req, row, dict(zip(names, values, strict=True)))
        raw, document = b'', None
        if row.streams:
            bodies.refuse_encoded(req.environ)
        elif req.environ['REQUEST_METHOD'] in _BODIES:
            raw = api.read(req, row)
            if row.action is not None:
                document = api.parse(raw)
        req.route, names = row, names = mappers.choose(rows, req.version, document)
        parts = dict(zip(names, values, strict=True))
        api.authorize(req, row, parts)
        if row.query is not None:
            req.query = row.query.validate(req.environ.get('QUERY_STRING', ''), req.version, req.relaxed)
        if row.body is not None and not row.streams:
            req.body = row.body.validate(api.parse(raw) if document is None else document, req.version, req.relaxed)
        api.check(req, row, parts)
        return api.perform(req, raw, functools.partial(row.handler, req, **parts))


def _encoded(body: Content) -> bytes | Stream:
    if isinstance(body, (bytes, Stream)):
        return body
    text = b'' if body is None else utils.encode_json(body)
    memory.answered(len(text))
    return text


def _content_headers(api: Api[typing.Any], code: int, body: bytes | Stream, headers: Headers) -> Headers:
    if isinstance(body, Stream):
        found = [('Content-Type', body.content_type)]
        return found + ([('Cache-Control', 'no-store')] if body.size is None else [('Content-Length', str(body.size))])
    if not body and code in _NO_CONTENT:
        return []
    length = ('Content-Length', str(len(body)))
    if any(name == 'Content-Type' for name, _value in headers):
        return [length]
    return [('Content-Type', api.content_type), length]


def segments_of(path: str) -> list[str]:
    """Split a path into segments, ignoring slashes at both ends."""
    return path.strip('/').split('/') if path.strip('/') else []
