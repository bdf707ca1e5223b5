"""XML support for /v3.0: a WSGI filter that converts XML requests to JSON and JSON responses to XML.

The filter also supports the first design of the groups API: ``/v1.0`` in a path, and UPDATE instead of PUT. The
filter runs before the authentication, so that 401 responses have the client's format.

    <group name="db" tenant_id="…">
        <policies><policy>anti-affinity</policy></policies>
        <metadata><meta key="tier">1</meta></metadata>
        <members><member>…</member></members>
    </group>

The root of a list is ``<groups>``. A fault is ``<itemNotFound code="404"><message>…</message></itemNotFound>``. The
parser refuses document types and entities, so requests cannot expand entities or load external documents. The parser
limits the number and the depth of elements.
"""
from __future__ import annotations

import http
import io
import re
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment
from xml.parsers import expat
from xml.sax import saxutils

import orjson

from nova import exception
from nova.api import app
from nova.api import faults
from nova.api.request import request_id_of
from nova.json_types import JsonDocument
from nova.web import bodies
from nova.web import paste_registry
from nova.web import pipeline

JSON, XML = 'application/json', 'application/xml'
_FORMER, _UPDATE = 'v1.0', 'UPDATE'              # first path segment and HTTP method of updates in the first design
_XML_TYPES = (XML, 'text/xml')
MAX_DEPTH = 8
MAX_ELEMENTS = 4096
# {list element: item element}: lists of strings, metadata, and lists of objects
_TEXTS = {'policies': 'policy', 'members': 'member'}
_METADATA, _META = 'metadata', 'meta'
_OBJECTS = {'groups': 'group'}
_Element = tuple[str, dict[str, str], list[Any], list[str]]     # name, attributes, children, texts
_NO_XML = re.compile('[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]')  # characters that XML forbids


def factory(global_conf: dict[str, str], **local: str) -> Callable[[WSGIApplication], Filter]:
    """Filter factory for Paste."""
    most = paste_registry.lookup(global_conf['api_services']).conf.api.max_request_body_size
    return lambda application: Filter(application, most)


class Filter:
    """WSGI filter for XML.

    :param max_body: maximum size of a request in bytes
    """

    def __init__(self, application: WSGIApplication, max_body: int) -> None:
        self._application, self._max_body = application, max_body

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get('PATH_INFO', '')
        if path.startswith(f'/{_FORMER}/'):
            path = environ['PATH_INFO'] = f'/{app.GROUPS}/{path[len(_FORMER) + 2:]}'
        if not path.startswith(f'/{app.GROUPS}/'):
            return self._application(environ, start_response)
        if environ['REQUEST_METHOD'] == _UPDATE:
            environ['REQUEST_METHOD'] = 'PUT'
        suffix = path.endswith('.xml')
        if suffix:
            environ['PATH_INFO'] = path[:-len('.xml')]
        in_xml = suffix or _prefers_xml(environ.get('HTTP_ACCEPT', ''))
        started = pipeline.Started()
        try:
            body = self._answer(environ, started)
        except exception.NovaException as error:
            request_id = request_id_of(environ)
            code, headers, document = faults.answer(error, request_id, environ.get('HTTP_ACCEPT_LANGUAGE', ''))
            body = orjson.dumps(document)
            started(f'{code} {http.HTTPStatus(code).phrase}', headers + app.request_id_headers(request_id))
        return _send(environ, start_response, started, body, in_xml)

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> bytes:
        kind, _, parameters = environ.get('CONTENT_TYPE', '').partition(';')
        if kind.strip().lower() in _XML_TYPES and environ['REQUEST_METHOD'] in ('POST', 'PUT'):
            raw = bodies.read(environ, self._max_body)
            if raw:
                raw = orjson.dumps(to_json(raw, _charset(parameters)))
            environ['wsgi.input'] = io.BytesIO(raw)
            environ['CONTENT_LENGTH'], environ['CONTENT_TYPE'] = str(len(raw)), JSON
        method, environ['REQUEST_METHOD'] = environ['REQUEST_METHOD'], environ['REQUEST_METHOD'].replace('HEAD', 'GET')
        try:
            return b''.join(self._application(environ, start_response))
        finally:
            environ['REQUEST_METHOD'] = method


def _send(environ: WSGIEnvironment, start_response: StartResponse, started: pipeline.Started, body: bytes,
          in_xml: bool) -> list[bytes]:
    kind = next((value for name, value in started.headers if name.lower() == 'content-type'), JSON)
    in_xml = in_xml and kind.startswith(JSON)
    if in_xml and body:
        body = from_json(orjson.loads(body))
    kept = [(name, value) for name, value in started.headers if name.lower() not in ('content-type', 'content-length')]
    if body:
        kept += [('Content-Type', XML if in_xml else kind), ('Content-Length', str(len(body)))]
    start_response(started.status, [*kept, ('Vary', 'Accept')])
    return [] if environ['REQUEST_METHOD'] == 'HEAD' else [body]


def _charset(parameters: str) -> str | None:
    found = re.search(r'charset="?([\w.:-]+)', parameters)
    return found and found[1]


def _prefers_xml(accept: str) -> bool:
    """Return True if an Accept header prefers XML to JSON."""
    liked = {}
    for item in accept[:1024].split(','):
        kind, *parameters = (part.strip().lower() for part in item.split(';'))
        quality = next((part[2:] for part in parameters if part.startswith('q=')), '1')
        liked[kind] = float(quality) if re.fullmatch(r'[01](\.[0-9]{0,3})?', quality) else 0
    others = liked.get('application/*', liked.get('*/*', 0))
    return max(liked.get(kind, 0) for kind in _XML_TYPES) > liked.get(JSON, others)


# ---- parsing -----------------------------------------------------------------

class _Reader:
    """Handlers of an expat parser that build a tree of (name, attributes, children, [texts])."""

    def __init__(self) -> None:
        self.root: _Element | None = None
        self._open: list[_Element] = []
        self._count = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if len(self._open) == MAX_DEPTH or self._count > MAX_ELEMENTS:
            raise exception.BadRequest('Malformed request body: it has too many or too deeply nested elements.')
        element: _Element = (_local(name), {_local(key): value for key, value in attributes.items()}, [], [])
        if self._open:
            self._open[-1][2].append(element)
        else:
            self.root = element
        self._open.append(element)

    def end(self, name: str) -> None:
        self._open.pop()

    def text(self, data: str) -> None:
        self._open[-1][3].append(data)

    @staticmethod
    def refuse(*_: object) -> NoReturn:
        raise exception.BadRequest('Malformed request body: document types and entities are not supported.')


def _local(name: str) -> str:
    """Return a name without its namespace."""
    return name.rpartition(' ')[2]


def to_json(raw: bytes, charset: str | None = None) -> JsonDocument:
    """Convert an XML document to a JSON body: {name of the root: content}.

    :raises BadRequest: the document is not XML, or has an unexpected structure
    """
    reader = _Reader()
    try:
        parser = expat.ParserCreate(charset, ' ')
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
        parser.CharacterDataHandler = reader.text
        parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = reader.refuse
        parser.ExternalEntityRefHandler = parser.UnparsedEntityDeclHandler = reader.refuse
        parser.Parse(raw, True)
    except (expat.ExpatError, LookupError, ValueError):
        raise exception.BadRequest('Malformed request body: it is not XML.') from None
    assert reader.root is not None       # expat refuses a document without a root
    name, attributes, children, texts = reader.root
    _refuse_text(name, texts)
    found: dict[str, Any] = dict(attributes)
    for child in children:
        if child[0] in found:
            raise exception.BadRequest(f'Malformed request body: it has {child[0][:80]} twice.')
        found[child[0]] = _metadata(child) if child[0] == _METADATA else _texts(child)
    return {name: found}


def _refuse_text(name: str, texts: list[str]) -> None:
    if ''.join(texts).strip():
        raise exception.BadRequest(f'Malformed request body: the element {name[:80]} must not contain text.')


def _items(element: _Element, of: str) -> list[_Element]:
    name, attributes, children, texts = element
    _refuse_text(name, texts)
    if attributes or any(child[0] != of or child[2] for child in children):
        raise exception.BadRequest(f'Malformed request body: the element {name[:80]} may only contain {of} elements.')
    return children


def _texts(element: _Element) -> list[str]:
    of = _TEXTS.get(element[0])
    if of is None:
        raise exception.BadRequest(f'Malformed request body: the element {element[0][:80]} was unexpected.')
    return [''.join(texts).strip() for _name, _attributes, _children, texts in _items(element, of)]


def _metadata(element: _Element) -> dict[str, str]:
    found = {}
    for _name, attributes, _children, texts in _items(element, _META):
        if set(attributes) != {'key'} or attributes['key'] in found:
            raise exception.BadRequest('Malformed request body: a meta must have a unique key and no other attribute.')
        found[attributes['key']] = ''.join(texts)
    return found


# ---- formatting --------------------------------------------------------------

def from_json(body: dict[str, Any]) -> bytes:
    """Convert the JSON document of a response to XML."""
    (name, value), = body.items()
    return ("<?xml version='1.0' encoding='UTF-8'?>\n" + _element(name, value)).encode()


def _element(name: str, value: dict[str, Any] | list[Any]) -> str:
    if isinstance(value, list):
        return _wrapped(name, ''.join(_element(_OBJECTS[name], item) if name in _OBJECTS else
                                      _wrapped(_TEXTS[name], _escaped(item)) for item in value))
    if name == _METADATA:
        return _wrapped(name, ''.join(_wrapped(_META, _escaped(text), {'key': key}) for key, text in value.items()))
    attributes = {key: item for key, item in value.items()
                  if not isinstance(item, (dict, list)) and key != 'message' and item is not None}
    inner = ''.join(_element(key, item) for key, item in value.items() if isinstance(item, (dict, list)))
    if 'message' in value:
        inner += _wrapped('message', _escaped(value['message']))
    return _wrapped(name, inner, attributes)


def _wrapped(name: str, inner: str, attributes: Mapping[str, Any] = types.MappingProxyType({})) -> str:
    head = ''.join(f' {key}={saxutils.quoteattr(_possible(str(attributes[key])))}' for key in attributes)
    return f'<{name}{head}>{inner}</{name}>' if inner else f'<{name}{head}/>'


def _escaped(text: object) -> str:
    return saxutils.escape(_possible(str(text)), {'\r': '&#13;'})


def _possible(text: str) -> str:
    """Replace characters that XML cannot represent."""
    return _NO_XML.sub('\ufffd', text)
