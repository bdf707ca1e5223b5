"""nova.web by itself: paths to rows, the walk of a request, versions, JSON types of fields."""
import gzip
import io
import types

import pytest

from nova import exception
from nova.web import application
from nova.web import faults
from nova.web import mapper as mappers
from nova.web import openapi
from nova.web import params
from nova.web import pipeline
from nova.web.fields import Field
from nova.web.fields import Fields
from nova.web.fields import Shape
from nova.web.request import Response
from nova.web.routes import Route
from nova.web.versions import Microversions


def things(req, **parts):
    return {'method': req.method, **parts}


ROUTES = (
    Route('GET', '/', things),
    Route('GET', '/things', things),
    Route('GET', '/things/{id}', things),
    Route('DELETE', '/things/{id}', things, status=204),
    Route('GET', '/things/detail', things),
    Route('POST', '/things/{thing}/action', things, action='stop'),
    Route('GET', '/{kind}/{id}', things),
)


@pytest.mark.parametrize('method, path, expected', [
    ('GET', '', ('/', [])), ('GET', 'things', ('/things', [])), ('GET', 'things/detail', ('/things/detail', [])),
    ('GET', 'things/x', ('/things/{id}', ['x'])), ('GET', 'things/x y', ('/things/{id}', ['x y'])),
    ('DELETE', 'things/detail', ('/things/{id}', ['detail'])),           # a thing may have the name of a fixed segment
    ('GET', 'others/x', ('/{kind}/{id}', ['others', 'x'])), ('GET', 'things/detail\n', ('/things/{id}', ['detail\n'])),
    ('POST', 'things/x/action', ('/things/{thing}/action', ['x'])), ('GET', 'things//action', None),
    ('GET', 'others', None), ('GET', 'things/x/y/z', None)])
def test_paths_are_mapped_to_route_rows(method, path, expected):
    methods, values = mappers.Mapper(ROUTES).find(path.split('/') if path else [], method)
    found = methods and (next(row.path for rows in methods.values() for row, _names in rows), values)
    assert found == expected


def test_mapper_returns_the_allowed_methods_of_a_path():
    methods, _values = mappers.Mapper(ROUTES).find(['things', 'x'], 'PUT')
    assert methods.keys() == {'GET', 'DELETE'}


class Plain(application.Api):
    def fault(self, req, error):
        code, message, _english = faults.explain(error, 'req-1')
        return Response({'error': message}, code)


def ask(method, path, body=b'', routes=ROUTES):
    started = []
    environ = {'REQUEST_METHOD': method, 'PATH_INFO': path, 'SCRIPT_NAME': '', 'wsgi.url_scheme': 'http',
               'wsgi.input': io.BytesIO(body), 'CONTENT_LENGTH': str(len(body))}
    chunks = application.Application(Plain(routes))(environ, lambda *response: started.append(response))
    return started[0][0], dict(started[0][1]), b''.join(chunks)


def test_requests_are_routed_by_path_and_method():
    status, headers, body = ask('GET', '/things/x')
    assert (status, body) == ('200 OK', b'{"method":"GET","id":"x"}')
    assert headers == {'Content-Type': 'application/json', 'Content-Length': str(len(body))}
    assert ask('HEAD', '/things/x') == (status, headers, b'')
    assert ask('GET', '/nothing')[0] == '404 Not Found' and ask('PUT', '/things')[0] == '405 Method Not Allowed'
    assert ask('GET', '/things/%s' % b'\xff'.decode('latin-1'))[0] == '404 Not Found'
    assert ask('POST', '/things/x/action', b'{"stop": null}')[0] == '200 OK'
    assert ask('POST', '/things/x/action', b'{"go": null}')[0] == '400 Bad Request'


def test_unserializable_response_returns_500():
    assert ask('GET', '/', routes=[Route('GET', '/', lambda req: {'x': object()})])[0] == '500 Internal Server Error'


def test_middleware_steps_share_one_call():
    def refuse(environ, start_response):
        return ['no'] if environ.get('refused') else None
    inner = pipeline.prepend(refuse, lambda environ, start_response: ['yes'])
    outer = pipeline.prepend(lambda environ, start_response: environ.setdefault('seen', True) and None, inner)
    assert len(outer.filters) == 2 and outer.application is inner.application
    assert outer({}, None) == ['yes'] and outer({'refused': True}, None) == ['no']


def test_another_major_version_is_refused_as_the_api_says():
    for error in (exception.NotAcceptable, exception.BadRequest):
        found = Microversions('things', 3, 0, 9, other_major=error)
        with pytest.raises(error):
            found.parse('2.1')
        with pytest.raises(exception.NotAcceptable):
            found.parse('3.10')
        assert found.negotiate({'HTTP_OPENSTACK_API_VERSION': 'other 1.0, things latest'}) == 9


def test_types_of_fields_are_described_by_version():
    table = Fields(Field('id', 'id', type='string required'), Field('plain', 'plain'),
                   Field('links', 'links', since=3,
                         type=Shape(('', 'array'), ('[]', 'object'), ('[].rel', 'string', 5))))
    assert table.described(1) == {'id': 'string required'}
    assert table.described(3) == {'id': 'string required', 'links': 'array', 'links[]': 'object'}
    assert table.described(5).keys() == {'id', 'links', 'links[]', 'links[].rel'}


@pytest.mark.parametrize('minimum, bounds', [(-1, {}), (None, {}), (0, {'pattern': '^0*[0-9]{1,3}$'})])
def test_bounds_of_integers_as_text_are_published_as_patterns(minimum, bounds):
    assert openapi.published(params.integer(minimum, 999).schema(1))['allOf'] == [bounds]


@pytest.mark.parametrize('headers, code, encoded', [
    ({}, None, False), ({'Accept-Encoding': 'gzip'}, None, True), ({'Accept-Encoding': 'br, GZIP;q=0.5'}, None, True),
    ({'Accept-Encoding': 'gzip;q=0'}, None, False), ({'Accept-Encoding': 'gzipped'}, None, False),
    ({'If-None-Match': 'W/"{}"'}, 304, False), ({'If-None-Match': '"other", "{}"'}, 304, False),
    ({'If-None-Match': '*'}, 304, False), ({'If-None-Match': 'W/"other"'}, None, False)])
def test_openapi_document_follows_the_headers_of_the_request(headers, code, encoded):
    body, tag = openapi.encoded({'openapi': '3.1.0'})
    name = tag.removeprefix('W/').strip('"')
    sent = {key: value.replace('{}', name) for key, value in headers.items()}
    answer = openapi.response(types.SimpleNamespace(header=lambda key: sent.get(key, '')), body, tag)
    assert (answer.status, ('Content-Encoding', 'gzip') in answer.headers) == (code, encoded)
    assert answer.body == (b'' if code == 304 else body if encoded else gzip.decompress(body))
