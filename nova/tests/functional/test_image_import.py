"""Imports of image data over HTTP: downloads of URLs with their limits, staged data, and the clients."""
import contextlib
import hashlib
import http.server
import ipaddress
import json
import os
import socket
import threading
import time

from oslo_db import exception as db_exc
import pytest

from nova import exception
from nova.image import fetch
from nova.image.embedded import imports
from nova.image.embedded import service as image_store
from nova.tests import image_corpus as corpus
from nova.tests import image_service as service
from nova.tests import warm_client
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support.waiting import wait_for

OCTETS = {'Content-Type': 'application/octet-stream'}
RAW = {'name': 'imported', 'disk_format': 'raw', 'container_format': 'bare'}
DISK = os.urandom(3 * 2 ** 20 // 2)
DOWNLOAD = {'method': {'name': 'web-download', 'uri': 'https://example.org/disk'}}
NEW_TASK = {'type': 'import', 'input': {'import_from': 'https://example.org/disk', 'image_properties': {
    'disk_format': 'raw'}}}


class Site(http.server.BaseHTTPRequestHandler):
    """``files``: {path: (status, headers, body)}; ``asked`` has the paths."""

    files: dict = {}
    asked: list = []

    def do_GET(self):
        self.asked.append(self.path)
        status, headers, body = self.files.get(self.path, (404, {}, b''))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


@pytest.fixture(scope='module')
def site():
    """URL of an http server at 127.0.0.1."""
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Site)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    Site.files.update({
        '/disk?signature=hidden': (200, {'Content-Length': str(len(DISK))}, DISK),
        '/moved': (302, {'Location': '/disk?signature=hidden'}, b''),
        '/inside': (302, {'Location': f'http://127.0.0.2:{server.server_port}/disk'}, b''),
        '/metadata': (302, {'Location': 'http://169.254.169.254/latest'}, b''),
        '/file': (302, {'Location': 'file:///etc/passwd'}, b''),
        '/short': (200, {'Content-Length': '99'}, b'x'),
        '/dangerous': (200, {}, corpus.qcow2(backing=b'/etc/passwd')),
        '/endless': (200, {}, bytes(2 ** 20) * 70)})
    yield f'http://127.0.0.1:{server.server_port}'
    server.shutdown()
    server.server_close()


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('import'), image__import_networks='127.0.0.1/32') as made:
        yield made


@pytest.fixture(scope='module')
def user(cloud):
    return cloud.client()


def queued(user, **fields):
    answer = user.post('/image/v2/images', {**RAW, **fields})
    assert answer.status_code == 201, answer.text
    assert answer.headers['OpenStack-image-import-methods'] == 'glance-direct,web-download'
    return f'/image/v2/images/{answer.json()["id"]}'


def download(user, image, url):
    return user.post(image + '/import', {'method': {'name': 'web-download', 'uri': url}})


def ended(user, image):
    """Wait for the end of the last import; return its task."""
    return wait_for(lambda: next((task for task in user.get(image + '/tasks').json()['tasks'][-1:]
                                  if task['status'] in ('success', 'failure')), None), 30)


def test_a_url_becomes_the_data_of_an_image(user, site):
    assert user.get('/image/v2/info/import').json()['import-methods']['value'] == ['glance-direct', 'web-download']
    image = queued(user)
    answer = download(user, image, site + '/moved')
    assert (answer.status_code, answer.text) == (202, '')
    task = ended(user, image)
    assert (task['status'], task['message'], task['type']) == ('success', '', 'api_image_import')
    assert task['request_id'].startswith('req-') and task['owner'] == user.project_id
    shown = user.get(image).json()
    assert (shown['status'], shown['size']) == ('active', len(DISK))
    assert shown['os_hash_value'] == hashlib.sha512(DISK).hexdigest()
    assert user.get(image + '/file').content == DISK
    assert download(user, image, site + '/moved').status_code == 409


def test_download_continues_after_a_database_error(user, site, monkeypatch):
    update, failed = imports.db_tasks.update, []

    def fail_once(conn, task_id, values):
        if not failed:
            failed.append(values['status'])
            raise exception.ServiceUnavailable(service='database')
        return update(conn, task_id, values)
    monkeypatch.setattr(imports.db_tasks, 'update', fail_once)
    image = queued(user)
    assert download(user, image, site + '/moved').status_code == 202
    assert ended(user, image)['status'] == 'success' and failed == ['processing']
    assert user.get(image).json()['status'] == 'active'


@pytest.mark.parametrize('path, reason', [
    ('/inside', 'not public'), ('/metadata', 'not public'), ('/file', 'not an https or http URL'),
    ('/missing', 'returned 404'), ('/short', 'ended after 1 of 99|Cannot download'), ('/dangerous', 'unacceptable')])
def test_a_failed_download_leaves_the_image_queued_and_says_why(user, site, path, reason):
    image = queued(user, disk_format='qcow2')
    assert download(user, image, site + path).status_code == 202
    task = ended(user, image)
    assert task['status'] == 'failure' and any(part in task['message'] for part in reason.split('|')), task
    shown = user.get(image).json()
    assert (shown['status'], shown['size']) == ('queued', None)
    assert user.get('/image/v2/info/usage').json()['usage']['image_count_uploading']['usage'] == 0


@pytest.mark.parametrize('url', [
    'file:///etc/passwd', 'ftp://example.org/x', 'http://u:p@example.org/x', 'http://169.254.169.254/latest',
    'http://127.0.0.2/x', 'http://[::1]/x', 'http://10.0.0.1/x', 'https://[::ffff:10.0.0.1]/x', 'x'])
def test_urls_that_cannot_be_allowed_are_refused_at_once(user, url):
    image = queued(user)
    answer = download(user, image, url)
    assert answer.status_code == 400, answer.text
    assert user.get(image).json()['status'] == 'queued' and user.get(image + '/tasks').json()['tasks'] == []


SECRETS = ['https://u:s3cret@example.org/x', 'https://u:s3cret?more@example.org/x', 'https:u:s3cret@example.org/x',
           'u:s3cret@example.org/x', 'https://u:s3cret@[::1/x', 'ftp://example.org/x?signature=s3cret']


@pytest.mark.parametrize('url', SECRETS)
def test_refused_url_is_shown_without_password_and_signature(user, caplog, url):
    image = queued(user)
    answer = download(user, image, url)
    assert answer.status_code == 400 and 'is not an https or http URL without user name' in answer.text
    assert 's3cret' not in answer.text + caplog.text


def test_refused_redirect_is_logged_without_its_password(user, site, caplog):
    image = queued(user)
    Site.files['/secret'] = (302, {'Location': 'http://u:s3cret@127.0.0.1/x'}, b'')
    assert download(user, image, site + '/secret').status_code == 202
    task = ended(user, image)
    assert 'is not an https or http URL without user name' in task['message'] and task['message'] in caplog.text
    assert 's3cret' not in task['message'] + caplog.text


@pytest.mark.parametrize('body', [
    {}, {'method': {}}, {'method': 'web-download'}, {'method': {'name': 'web-download'}},
    {'method': {'name': 'copy-image'}}, {'method': {'name': 'glance-direct', 'uri': 'http://example.org/x'}},
    {'method': {'name': 'glance-direct'}, 'stores': ['other']}, {'method': {'name': 'glance-direct'}, 'x': 1}, []])
def test_requests_that_are_not_understood_are_refused(user, body):
    assert user.post(queued(user) + '/import', body).status_code == 400


def test_staged_data_becomes_the_data_of_an_image(user):
    image = queued(user)
    assert user.post(image + '/import', {'method': {'name': 'glance-direct'}}).status_code == 409
    assert user.request('PUT', image + '/stage', data=DISK, headers=OCTETS).status_code == 204
    shown = user.get(image).json()
    assert (shown['status'], user.get(image + '/file').status_code) == ('uploading', 204)
    usage = user.get('/image/v2/info/usage').json()['usage']
    assert usage['image_stage_total']['usage'] == 2 and usage['image_size_total']['usage'] >= 2
    assert user.request('PUT', image + '/file', data=DISK, headers=OCTETS).status_code == 409
    answer = user.post(image + '/import', {'method': {'name': 'glance-direct'}, 'all_stores': True})
    assert answer.status_code == 202
    assert ended(user, image)['status'] == 'success'
    assert user.get(image).json()['status'] == 'active' and user.get(image + '/file').content == DISK


def test_other_projects_neither_import_nor_see_urls(cloud, user, site):
    image = queued(user, visibility='community')
    other = cloud.admin()
    download(user, image, site + '/missing')
    ended(user, image)
    assert other.get(image + '/tasks').json()['tasks']          # an administrator
    store = cloud.images.store
    application = service.Application(store)
    stranger = service.Client(application, service.BOB)
    path = image.removeprefix('/image')
    assert stranger('GET', path + '/tasks').json == {'tasks': []}
    assert stranger('POST', path + '/import', {'method': {'name': 'web-download', 'uri': 'http://example.org/'}}
                    ).status == 403
    assert stranger('PUT', path + '/stage', b'x', kind='application/octet-stream').status == 403


def test_image_deleted_during_its_download_returns_404(user, site):
    image = queued(user)
    assert download(user, image, site + '/endless').status_code == 202
    assert user.delete(image).status_code == 204
    assert user.get(image).status_code == 404


def test_a_restart_ends_interrupted_imports_and_keeps_staged_data(tmp_path, monkeypatch, site):
    monkeypatch.setattr(imports, 'MAX_RUNNING', 0)               # downloads wait
    alice = service.Client(service.application(tmp_path))
    ids = [alice.create()['id'] for _number in range(2)]
    for image in ids:
        assert alice('PUT', f'/v2/images/{image}/stage', b'data', kind='application/octet-stream').status == 204
    assert alice('POST', f'/v2/images/{ids[0]}/import', {'method': {'name': 'glance-direct'}}).status == 202
    ids.append(alice.create()['id'])
    assert alice('POST', f'/v2/images/{ids[2]}/import', DOWNLOAD).status == 202
    monkeypatch.setattr(imports, 'MAX_RUNNING', 1)
    before, after = alice, service.Client(service.application(tmp_path, importing=imports.Settings(
        networks=(ipaddress.ip_network('127.0.0.1/32'),))))
    assert [after('GET', f'/v2/images/{image}').json['status'] for image in ids] == ['active', 'uploading', 'queued']
    shown = [after('GET', f'/v2/images/{image}/tasks').json['tasks'] for image in ids]
    assert [[(task['status'], task['message']) for task in tasks] for tasks in shown] == [
        [('success', '')], [], [('failure', imports.INTERRUPTED)]]
    listed = after('GET', '/v2/tasks').json['tasks']
    assert listed == [*shown[2], *shown[0]]
    assert listed[1] == before('GET', f'/v2/tasks/{listed[1]["id"]}').json
    again = {'method': {'name': 'web-download', 'uri': site + '/moved'}}
    assert after('POST', f'/v2/images/{ids[2]}/import', again).status == 202
    wait_for(lambda: after('GET', f'/v2/images/{ids[2]}/tasks').json['tasks'][-1]['status'] == 'success', 30)
    assert after('GET', f'/v2/images/{ids[2]}').json['status'] == 'active'


def test_an_import_that_stored_its_data_before_the_restart_has_succeeded(tmp_path, monkeypatch):
    monkeypatch.setattr(imports, 'MAX_RUNNING', 0)
    store = service.store(tmp_path)
    alice = service.Client(service.Application(store))
    image = alice.create()['id']
    assert alice('POST', f'/v2/images/{image}/import', DOWNLOAD).status == 202
    store.receive(store.show(alice.ctx, image), store.show(alice.ctx, image)['data_id'], [b'data'])
    again = service.Client(service.application(tmp_path))
    task, = again('GET', f'/v2/images/{image}/tasks').json['tasks']
    assert (task['status'], task['message']) == ('success', '')


def test_an_image_keeps_its_newest_tasks_and_takes_them_along(tmp_path, monkeypatch):
    monkeypatch.setattr(imports, 'MAX_TASKS', 2)
    alice = service.Client(service.application(tmp_path))
    image = alice.create()['id']
    for number in range(4):
        assert alice('POST', f'/v2/images/{image}/import', {
            'method': {'name': 'web-download', 'uri': f'http://host-{number}.invalid/x'}}).status == 202
        wait_for(lambda: alice('GET', f'/v2/images/{image}/tasks').json['tasks'][-1]['status'] == 'failure', 30)
    kept = alice('GET', f'/v2/images/{image}/tasks').json['tasks']
    assert [task['message'].partition(' ')[0] for task in kept] == ['host-2.invalid', 'host-3.invalid']
    assert alice('DELETE', f'/v2/images/{image}').status == 204
    assert alice('GET', '/v2/tasks').json['tasks'] == []


def test_methods_and_the_number_of_waiting_downloads_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(imports, 'MAX_RUNNING', 0)
    monkeypatch.setattr(imports, 'MAX_WAITING', 1)
    (tmp_path / 'one').mkdir()
    alice = service.Client(service.application(tmp_path / 'one'))
    urls = [f'/v2/images/{alice.create()["id"]}/import' for _number in range(2)]
    assert [alice('POST', url, DOWNLOAD).status for url in urls] == [202, 503]
    (tmp_path / 'two').mkdir()
    none = service.Client(service.application(tmp_path / 'two', importing=imports.Settings(methods=())))
    path = f'/v2/images/{none.create()["id"]}'
    assert none('POST', path + '/import', DOWNLOAD).status == 400
    assert none('PUT', path + '/stage', b'x', kind='application/octet-stream').status == 404
    assert none('GET', '/v2/info/import').json['import-methods']['value'] == []


def test_one_project_leaves_downloads_and_waiting_places_to_others(tmp_path, monkeypatch):
    """One project with servers that drip stopped all imports for hours."""
    begun, go = [], threading.Event()

    def chunks(self, url):
        begun.append(url)
        assert go.wait(30)
        yield b'data'
    monkeypatch.setattr(imports, 'MAX_WAITING', 4)
    monkeypatch.setattr(fetch.Fetcher, 'chunks', chunks)
    alice = service.Client(service.application(tmp_path))
    other = service.Client(alice.application, service.BOB)

    def ask(client, name):
        image = client.create()['id']
        method = {'name': 'web-download', 'uri': f'https://example.org/{name}'}
        return image, client('POST', f'/v2/images/{image}/import', {'method': method}).status
    try:
        made = [ask(alice, 'alice') for _number in range(6)]
        assert [status for _image, status in made] == [202] * 5 + [503]      # three run, two wait
        theirs, status = ask(other, 'other')
        assert status == 202
        wait_for(lambda: len(begun) == 4, 30)
        assert begun.count('https://example.org/other') == 1
    finally:
        go.set()
    for client, image in ((alice, made[4][0]), (other, theirs)):
        wait_for(lambda client=client, image=image: client('GET', f'/v2/images/{image}').json['status'] == 'active', 30)


def test_an_import_without_a_thread_frees_its_slot_although_the_database_is_away(tmp_path, monkeypatch):
    def spawn(*args):
        raise RuntimeError("can't start new thread")

    def release(*args):
        raise db_exc.DBConnectionError()
    monkeypatch.setattr(imports.concurrency, 'spawn', spawn)
    monkeypatch.setattr(image_store.Store, 'release', release)
    alice = service.Client(service.application(tmp_path))
    for _number in range(imports.MAX_RUNNING + 1):
        image = f'/v2/images/{alice.create()["id"]}'
        assert alice('POST', f'{image}/import', DOWNLOAD).status == 202
        assert alice('GET', f'{image}/tasks').json['tasks'][-1]['message'] == imports.NO_THREAD


def test_an_import_without_a_thread_fails_and_can_be_repeated(tmp_path, monkeypatch):
    def spawn(*args):
        raise RuntimeError("can't start new thread")
    monkeypatch.setattr(imports.concurrency, 'spawn', spawn)
    alice = service.Client(service.application(tmp_path))
    image = f'/v2/images/{alice.create()["id"]}'
    for _number in range(2):
        assert alice('POST', f'{image}/import', DOWNLOAD).status == 202
        assert alice('GET', image).json['status'] == 'queued'
        assert alice('GET', f'{image}/tasks').json['tasks'][-1]['message'] == imports.NO_THREAD


@pytest.mark.parametrize('path, body', [('/v2/images/{}/import', DOWNLOAD), ('/v2/tasks', NEW_TASK)])
def test_url_is_checked_once_before_its_download(tmp_path, monkeypatch, path, body):
    monkeypatch.setattr(imports, 'MAX_RUNNING', 0)
    checked = []
    monkeypatch.setattr(fetch.Fetcher, 'verify', lambda self, url: checked.append(url))
    admin = service.Client(service.application(tmp_path), service.ADMIN)
    assert admin('POST', path.format(admin.create()['id']), body).status in (201, 202)
    assert checked == ['https://example.org/disk']


def test_a_task_that_is_refused_leaves_no_image(tmp_path, monkeypatch):
    monkeypatch.setattr(imports, 'MAX_WAITING', 0)
    admin = service.Client(service.application(tmp_path), service.ADMIN)
    assert admin('POST', '/v2/tasks', NEW_TASK).status == 503
    assert admin('GET', '/v2/images').json['images'] == admin('GET', '/v2/tasks').json['tasks'] == []


# ---- the fetcher -----------------------------------------------------------------

def test_addresses_of_this_machine_and_of_the_control_plane_are_refused(monkeypatch):
    fetcher = fetch.Fetcher(1, schemes=('http',), own=('controller.example',))
    monkeypatch.setattr(socket, 'getaddrinfo', lambda host, *_words, **_more: [
        (socket.AF_INET, 0, 0, '', ('1.1.1.1' if 'example' in host else host, 80))])
    for host in ('controller.example', 'other-name.example', '1.1.1.1'):
        with pytest.raises(Exception, match='not public'):
            fetcher.choose(host, 80)
    assert str(fetcher.choose('1.0.0.1', 80)) == '1.0.0.1'
    monkeypatch.setattr(fetch, '_is_local', lambda address: str(address) == '1.0.0.1')
    with pytest.raises(Exception, match='not public'):
        fetcher.choose('1.0.0.1', 80)


def test_an_address_of_this_machine_is_recognized():
    assert fetch._is_local(ipaddress.ip_address('127.0.0.1'))
    assert not fetch._is_local(ipaddress.ip_address('192.0.2.1'))


def test_headers_that_never_end_are_cut_off(monkeypatch):
    monkeypatch.setattr(fetch, 'ANSWER_S', 0.5)
    with socket.create_server(('127.0.0.1', 0)) as server:
        def drip():
            peer, _address = server.accept()
            with peer:
                try:
                    while True:
                        peer.sendall(b'HTTP/1.1 200 OK\r\nX: y')
                        time.sleep(0.05)
                except OSError:
                    pass
        threading.Thread(target=drip, daemon=True).start()
        began = time.monotonic()
        with pytest.raises(Exception, match='Cannot download'):
            list(fetch.Fetcher(1000, [ipaddress.ip_network('127.0.0.1/32')], schemes=('http',)).chunks(
                f'http://127.0.0.1:{server.getsockname()[1]}/x'))
        assert time.monotonic() - began < 30                          # of headers without an end


def test_a_dripping_server_is_refused(monkeypatch):
    monkeypatch.setattr(fetch, 'RATE_WINDOW_S', 0.5)
    with socket.create_server(('127.0.0.1', 0)) as server:
        def drip():
            peer, _address = server.accept()
            with peer, contextlib.suppress(OSError):
                peer.sendall(b'HTTP/1.1 200 OK\r\n\r\n')
                while True:
                    peer.sendall(b'x')
                    time.sleep(0.05)
        threading.Thread(target=drip, daemon=True).start()
        with pytest.raises(exception.InvalidInput, match='less than 16384 bytes per second'):
            list(fetch.Fetcher(1000, [ipaddress.ip_network('127.0.0.1/32')], schemes=('http',)).chunks(
                f'http://127.0.0.1:{server.getsockname()[1]}/x'))


# ---- clients ---------------------------------------------------------------------

@pytest.fixture
def openstack(cloud, user):
    pytest.importorskip('openstackclient', reason='python-openstackclient is not installed')

    def run(*words):
        status, printed = warm_client.client().run(
            ['--os-cloud', 'nova-demo', *words], {**os.environ, 'OS_CLIENT_CONFIG_FILE': str(cloud.clouds_yaml)})
        assert status == 0, printed
        return printed
    return run


def test_the_openstack_client_imports_a_url_and_staged_data(openstack, user, site, tmp_path):
    queued(user, name='by-url')                  # the command would read standard input, which is no terminal here
    openstack('image', 'import', '--method', 'web-download', '--uri', site + '/moved', 'by-url')
    wait_for(lambda: json.loads(openstack('image', 'show', 'by-url', '-f', 'json'))['status'] == 'active', 30)
    file = tmp_path / 'disk'
    file.write_bytes(DISK)
    openstack('image', 'create', '--import', '--disk-format', 'raw', '--file', str(file), 'by-stage')
    wait_for(lambda: json.loads(openstack('image', 'show', 'by-stage', '-f', 'json'))['status'] == 'active', 30)


# ---- tasks of the older API

def test_administrator_creates_an_image_with_a_task(cloud, user, site):
    admin = cloud.admin()
    given = {'import_from': site + '/moved', 'import_from_format': 'raw', 'image_properties': {'name': 'by task'}}
    assert user.post('/image/v2/tasks', {'type': 'import', 'input': given}).status_code == 403
    answer = admin.post('/image/v2/tasks', {'type': 'import', 'input': given})
    assert answer.status_code == 201, answer.text
    task = answer.json()
    assert (task['type'], task['input']) == ('import', given)
    path = f'/image/v2/tasks/{task["id"]}'
    wait_for(lambda: admin.get(path).json()['status'] == 'success', 30)
    image = admin.get(f'/image/v2/images/{task["image_id"]}').json()
    assert (image['name'], image['disk_format'], image['status']) == ('by task', 'raw', 'active')
    page = admin.get('/image/v2/tasks?limit=1').json()
    assert [row['id'] for row in page['tasks']] == [task['id']]               # the newest
    assert page.get('next') in (None, f'/v2/tasks?limit=1&marker={task["id"]}')
    following = admin.get(f'/image/v2/tasks?marker={task["id"]}').json()['tasks']
    assert bool(following) == ('next' in page) and task not in following
    assert admin.get('/image/v2/tasks?marker=none').status_code == 400
    assert task['id'] in {row['id'] for row in admin.get('/image/v2/tasks?type=import&status=success').json()['tasks']}
    assert user.get(path).status_code == 404
    assert task['id'] not in {row['id'] for row in user.get('/image/v2/tasks').json()['tasks']}
    for body in ({'type': 'export', 'input': given}, {'type': 'import'}, {'type': 'import', 'input': {}},
                 {'type': 'import', 'input': {**given, 'more': 1}},
                 {'type': 'import', 'input': {**given, 'import_from': 'file:///etc/passwd'}},
                 {'type': 'import', 'input': {**given, 'image_properties': {'disk_format': 'x'}}}):
        assert admin.post('/image/v2/tasks', body).status_code == 400, body
