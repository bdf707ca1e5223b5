"""The files of the dashboard: paths, caching, compression, headers, sizes, texts."""
import csv
import gzip
import hashlib
import io
import re

import orjson
import pytest

from nova import conf as nova_conf
from nova import exception
from nova import i18n
from nova import version as nova_version
from nova.api.dashboard import app
from nova.api.dashboard import texts
from nova.cloud import apis
from nova.web import static

BOUND = 400_000              # bytes of the whole page, compressed
VENDOR = app.STATIC / 'vendor'


def ask(path, method='GET', made=None, **headers):
    """(status, {header: value}, body) of a request; None where it goes on to the API."""
    answered = []
    environ = {'REQUEST_METHOD': method, 'PATH_INFO': path, 'SCRIPT_NAME': '', **headers}
    body = (made or app.Dashboard()).answer(environ, lambda status, found: answered.append((status, dict(found))))
    if body is None:
        return None
    return (*answered[0], b''.join(body))


@pytest.fixture(scope='module')
def dashboard():
    return app.Dashboard()


def test_dashboard_page_has_a_csp_and_a_versioned_base(dashboard):
    status, headers, body = ask('/dashboard/', made=dashboard)
    assert status == '200 OK' and headers['Content-Type'] == 'text/html; charset=utf-8'
    assert headers['Cache-Control'] == 'no-cache'
    version = orjson.loads(ask('/dashboard/config.json', made=dashboard)[2])['version']
    assert f'v/{version}/main.js'.encode() in body and b'{digest}' not in body
    assert orjson.loads(ask('/dashboard/config.json', made=dashboard)[2])['release'] == nova_version.VERSION
    assert ask('/dashboard/', 'HEAD', dashboard)[2] == b''


@pytest.mark.parametrize(('accept', 'page'), [
    (None, False), ('*/*', False), ('application/json', False), ('application/json, */*;q=0.1', False),
    ('text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', True), ('text/html;q=0.1, */*', False)])
def test_the_root_is_the_page_for_browsers_alone(dashboard, accept, page):
    for path in ('', '/'):
        found = ask(path, made=dashboard, **{} if accept is None else {'HTTP_ACCEPT': accept})
        assert (found is not None) == page
        if page:
            assert found[0] == '302 Found' and found[1]['Location'] == '/dashboard/' and found[1]['Vary'] == 'Accept'
    assert ask('/', 'POST', dashboard, HTTP_ACCEPT='text/html') is None


def test_files_of_the_version_are_kept_for_ever_and_others_are_none(dashboard):
    version = orjson.loads(ask('/dashboard/config.json', made=dashboard)[2])['version']
    status, headers, body = ask(f'/dashboard/v/{version}/main.js', made=dashboard)
    assert status == '200 OK' and 'immutable' in headers['Cache-Control'] and b'import' in body
    assert headers['Content-Type'] == 'text/javascript; charset=utf-8'
    assert ask('/dashboard/v/0000000000000000/main.js', made=dashboard)[0] == '404 Not Found'
    assert ask('/dashboard/main.js', made=dashboard)[0] == '404 Not Found'


@pytest.mark.parametrize('path', [
    '/dashboard/../app.py', '/dashboard/v/{}/../../app.py', '/dashboard/v/{}//etc/passwd', '/dashboard/v/{}/./main.js',
    '/dashboard/v/{}/%2e%2e/app.py', '/dashboard/v/{}/vendor', '/dashboard/v/{}/vendor/preact.d.mts',
    '/dashboard/v/{}/vendor/vendor.tsv', '/dashboard/v/{}/main.js/', '/dashboard/v/{}/\0', '/dashboard//main.js'])
def test_strange_paths_are_not_found(dashboard, path):
    version = orjson.loads(ask('/dashboard/config.json', made=dashboard)[2])['version']
    status, headers, _body = ask(path.format(version), made=dashboard)
    assert status == '404 Not Found' and headers['Cache-Control'] == 'no-store'


def test_requests_outside_the_dashboard_path_are_passed_on(dashboard):
    assert ask('/dashboards', made=dashboard) is None and ask('/v2.1/servers', made=dashboard) is None


def test_dashboard_path_without_slash_redirects_to_the_page(dashboard):
    status, headers, _body = ask('/dashboard', made=dashboard, SCRIPT_NAME='/cloud')
    assert status == '301 Moved Permanently' and headers['Location'] == '/cloud/dashboard/'


def test_dashboard_refuses_methods_other_than_get(dashboard):
    status, headers, _body = ask('/dashboard/', 'POST', dashboard)
    assert status == '405 Method Not Allowed' and headers['Allow'] == 'GET, HEAD'


def test_dashboard_files_have_entity_tags_and_compression(dashboard):
    status, headers, plain = ask('/dashboard/', made=dashboard)
    same = ask('/dashboard/', made=dashboard, HTTP_IF_NONE_MATCH=f'"x", {headers["ETag"]}')
    assert same[0] == '304 Not Modified' and same[2] == b'' and same[1]['ETag'] == headers['ETag']
    packed = ask('/dashboard/', made=dashboard, HTTP_ACCEPT_ENCODING='br, gzip;q=0.8')
    assert packed[1]['Content-Encoding'] == 'gzip' and gzip.decompress(packed[2]) == plain
    assert packed[1]['Content-Length'] == str(len(packed[2])) and 'Accept-Encoding' in packed[1]['Vary']
    assert 'Content-Encoding' not in ask('/dashboard/', made=dashboard, HTTP_ACCEPT_ENCODING='gzip;q=0')[1]


@pytest.mark.parametrize('path', ['/dashboard/', '/dashboard/nothing', '/dashboard/config.json', '/dashboard'])
def test_every_answer_has_the_headers_of_security(dashboard, path):
    headers = ask(path, made=dashboard)[1]
    rules = dict(rule.split(' ', 1) for rule in headers['Content-Security-Policy'].split('; '))
    assert rules['default-src'] == "'none'" and rules['script-src'] == rules['style-src'] == "'self'"
    assert rules['frame-ancestors'] == "'none'" and rules['base-uri'] == "'none'" and rules['form-action'] == "'none'"
    assert rules['require-trusted-types-for'] == "'script'" and 'unsafe' not in headers['Content-Security-Policy']
    assert headers['X-Content-Type-Options'] == 'nosniff' and headers['Referrer-Policy'] == 'no-referrer'
    assert headers['X-Frame-Options'] == 'DENY' and 'Set-Cookie' not in headers


def test_only_named_origins_may_be_asked():
    made = app.Dashboard('https://keys.example.com:5000/v3', None, ['https://image.example.com:9292/some/path'])
    headers = ask('/dashboard/', made=made)[1]
    assert ("connect-src 'self' https://image.example.com:9292 https://keys.example.com:5000;"
            in headers['Content-Security-Policy'])
    config = orjson.loads(ask('/dashboard/config.json', made=made)[2])
    assert config['identity'] == 'https://keys.example.com:5000/v3' and config['base'] is None


def test_the_page_has_nothing_inline():
    page = (app.STATIC / app.PAGE).read_text()
    assert not re.search(r'<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|javascript:', page)


def test_no_module_writes_markup_or_runs_text():
    wrong = re.compile(r'innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySet|\beval\(|new Function')
    found = [path.name for path in app.STATIC.rglob('*.js') if wrong.search(path.read_text())]
    assert found == []


def test_dashboard_files_are_below_the_size_limit():
    total = sum(len(file.compressed) for file in static.Files(app.STATIC).files.values())
    print(f'the whole page: {total} bytes, compressed')
    assert total < BOUND


def test_libraries_are_the_ones_that_are_listed():
    with open(VENDOR / 'vendor.tsv', newline='') as file:
        rows = [row for row in csv.reader(file, delimiter='\t') if not row[0].startswith('#')]
    listed = {name: (digest, package) for package, _version, _licence, name, digest in rows}
    assert set(listed) == {path.name for path in VENDOR.glob('*.mjs')}
    for name, (digest, package) in listed.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest, name
        assert (VENDOR / f'LICENSE.{package}.txt').exists()


def test_texts_are_found_and_translated(dashboard):
    files = static.Files(app.STATIC)
    assert {'Log in', 'Server groups', 'Create server', 'Any status'} <= set(texts.texts_of(files))
    source = rb"t('It\'s {count}') + at('no') + {label: 'Name', title: 'Volumes'}" + b"\n  ['Id', 'No'],"
    assert list(texts.translatable(source)) == ["It's {count}", 'Name', 'Volumes', 'Id']
    answer = orjson.loads(ask('/dashboard/texts.json', made=dashboard, HTTP_ACCEPT_LANGUAGE='de-AT, en;q=0.5')[2])
    assert answer['language'] == 'de' and set(answer['texts']) <= set(texts.texts_of(files))
    assert orjson.loads(ask('/dashboard/texts.json', made=dashboard)[2]) == {'language': i18n.DEFAULT, 'texts': {}}


# ---- who serves it ------------------------------------------------------------------

def served(url=None, **options):
    """What apis.dashboard makes of an application that answers 'api'."""
    conf = nova_conf.new(files=[], **{f'dashboard__{name}': value for name, value in options.items()})
    return apis.dashboard(conf, lambda environ, start_response: [b'api'], url)


def test_dashboard_can_be_disabled():
    assert served(enabled=False)({'REQUEST_METHOD': 'GET', 'PATH_INFO': '/dashboard/'}, None) == [b'api']


def test_all_in_one_dashboard_config_contains_the_base_address():
    answered = []
    application = served('http://10.0.0.1:8774')
    body, = application({'REQUEST_METHOD': 'GET', 'PATH_INFO': '/dashboard/config.json'},
                        lambda status, headers: answered.append(status))
    assert answered == ['200 OK'] and orjson.loads(body)['base'] == 'http://10.0.0.1:8774'
    assert application({'REQUEST_METHOD': 'GET', 'PATH_INFO': '/compute/v2.1'}, None) == [b'api']


def test_fleet_dashboard_config_contains_the_identity_address():
    body, = served(identity_url='https://keys.example.com/v3')(
        {'REQUEST_METHOD': 'GET', 'PATH_INFO': '/dashboard/config.json'}, lambda status, headers: None)
    assert orjson.loads(body) == {'identity': 'https://keys.example.com/v3', 'base': None,
                                  'version': static.Files(app.STATIC).digest,
                                  'release': nova_version.VERSION, 'websso': []}


# ---- federated logins ---------------------------------------------------------------

KEYS = 'https://Keys.example.com:443/v3'
TOKEN = 'gAAAAABo-_.='


def post(made, body, origin='https://keys.example.com', path='/dashboard/websso', **headers):
    sent = {'wsgi.input': io.BytesIO(body), 'CONTENT_LENGTH': str(len(body)), **headers}
    return ask(path, 'POST', made, **(sent if origin is None else {**sent, 'HTTP_ORIGIN': origin}))


@pytest.fixture(scope='module')
def federated():
    return app.Dashboard(KEYS, websso={'openid': 'Company', 'branch/saml2': ''})


def test_federated_logins_are_in_the_config(federated):
    assert orjson.loads(ask('/dashboard/config.json', made=federated)[2])['websso'] == [
        {'label': 'Company', 'path': '/auth/OS-FEDERATION/websso/openid'},
        {'label': 'branch/saml2', 'path': '/auth/OS-FEDERATION/identity_providers/branch/protocols/saml2/websso'}]


def test_posted_token_is_in_the_page_and_in_no_cache(federated):
    status, headers, body = post(federated, f'token={TOKEN}&other=1'.encode())
    assert status == '200 OK' and headers['Cache-Control'] == 'no-store' and 'ETag' not in headers
    assert headers['Content-Type'] == 'text/html; charset=utf-8' and 'Content-Security-Policy' in headers
    assert body.count(f'<meta name="nova-token" content="{TOKEN}">'.encode()) == 1
    assert body.replace(f'<meta name="nova-token" content="{TOKEN}">\n'.encode(), b'') == ask(
        '/dashboard/', made=federated)[2]


@pytest.mark.parametrize('origin', [None, 'null', 'https://evil.example', 'http://keys.example.com',
                                    'https://keys.example.com:444', 'https://keys.example.com.evil.example'])
def test_only_pages_of_the_identity_service_may_post_a_token(federated, origin):
    status, _headers, body = post(federated, f'token={TOKEN}'.encode(), origin)
    assert status == '403 Forbidden' and TOKEN.encode() not in body


@pytest.mark.parametrize(('body', 'code'), [
    (b'', 400), (b'token=', 400), (b'token=%22%3E%3Cscript%3E', 400), (b'token=a%0ab', 400), (b'token=%c3%a9', 400),
    (b'token=' + b'a' * 8193, 400), (b'token=' + b'a' * 16384, 413), (b'&'.join([b'a=b'] * 9), 400)])
def test_malformed_tokens_are_refused(federated, body, code):
    status, headers, answer = post(federated, body)
    assert status.startswith(f'{code} ') and b'<' not in answer and headers['Content-Type'].startswith('text/plain')


def test_tokens_are_only_posted_and_only_where_logins_are_configured(federated, dashboard):
    status, headers, _body = ask('/dashboard/websso', made=federated)
    assert status == '405 Method Not Allowed' and headers['Allow'] == 'POST'
    assert ask('/dashboard/websso', made=dashboard)[0] == '404 Not Found'
    assert post(dashboard, f'token={TOKEN}'.encode())[0] == '405 Method Not Allowed'


@pytest.mark.parametrize(('options', 'reason'), [
    ({'websso': {'openid': 'Company'}}, 'needs an external Keystone'),
    ({'websso': {'a/b/c': 'Company'}, 'identity_url': KEYS}, 'neither PROTOCOL nor IDENTITY_PROVIDER/PROTOCOL'),
    ({'websso': {'../x': 'Company'}, 'identity_url': KEYS}, 'neither PROTOCOL nor IDENTITY_PROVIDER/PROTOCOL'),
    ({'websso': {f'p{number}': 'x' for number in range(9)}, 'identity_url': KEYS}, '9 logins; 8 are allowed')])
def test_unusable_federated_logins_end_the_start_with_the_reason(options, reason):
    with pytest.raises(exception.InvalidInput, match=reason):
        served('http://10.0.0.1:8774', **options)
