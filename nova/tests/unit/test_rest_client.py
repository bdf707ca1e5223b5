"""Requests to other services of the cloud."""
import http.server
import io
import socket
import threading

import pytest

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova.image import glance
from nova.runtime import rest_client
from nova.volume import cinder

IDENT = '11111111-2222-3333-4444-555555555555'


def ask_for_image(conf):
    glance.GlanceImages(conf).show(context.admin_context(), IDENT)


def ask_for_volume(conf):
    cinder.CinderVolumes(conf).get(context.admin_context(), IDENT)


@pytest.mark.parametrize('ask', [ask_for_image, ask_for_volume])
def test_a_service_that_says_nothing_holds_no_thread_for_ever(ask, monkeypatch):
    """It takes the connection, and does not answer; keystoneauth waits without an end, unless it is told otherwise."""
    monkeypatch.setattr(rest_client, 'TIMEOUT_S', 0.2)
    found = []

    def run():
        with pytest.raises(exception.Unavailable) as raised:
            ask(conf)
        found.append(raised.value)
    with socket.create_server(('127.0.0.1', 0)) as silent:
        address = f'http://127.0.0.1:{silent.getsockname()[1]}'
        conf = nova_conf.new(files=[], glance__endpoint_override=address, cinder__endpoint_override=address)
        asking = threading.Thread(target=run, daemon=True)
        asking.start()
        asking.join(10)
    assert len(found) == 1


class Restarting(http.server.BaseHTTPRequestHandler):
    """Breaks or refuses the first requests."""

    seen, broken, refused = [], 0, 0

    def do_GET(self):
        self.seen.append(self.command)
        if len(self.seen) <= self.broken:
            self.close_connection = True
            return
        self.send_response(503 if len(self.seen) <= self.broken + self.refused else 200)
        self.send_header('Content-Length', '0')
        self.end_headers()

    do_PUT = do_POST = do_GET

    def log_message(self, *_texts):
        pass


@pytest.mark.parametrize('method, broken, refused, sent, code', [
    ('GET', 0, 2, 3, 200), ('GET', 0, 3, 3, 503), ('POST', 0, 2, 3, 200), ('GET', 1, 0, 2, 200), ('PUT', 1, 0, 2, 200),
    ('GET', 2, 0, 2, None), ('POST', 1, 0, 1, None), ('upload', 0, 1, 1, 503), ('upload', 1, 0, 1, None)])
def test_retries_are_those_of_the_section(monkeypatch, method, broken, refused, sent, code):
    """A request is not repeated if the service may have carried out a POST, or if its body is a stream."""
    monkeypatch.setattr(Restarting, 'seen', [])
    monkeypatch.setattr(Restarting, 'broken', broken)
    monkeypatch.setattr(Restarting, 'refused', refused)
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), Restarting) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        address = f'http://127.0.0.1:{server.server_port}'
        service = rest_client.Service(nova_conf.new(
            files=[], cinder__endpoint_override=address, cinder__connect_retries=1, cinder__connect_retry_delay=0.01,
            cinder__status_code_retries=2, cinder__status_code_retry_delay=0.01), 'cinder', 'block-storage', 'Test')
        more = {'data': io.BytesIO(b'x')} if method == 'upload' else {}

        def ask():
            return service.request(context.admin_context(), 'PUT' if more else method, lambda: address, {},
                                   **more).status_code
        if code is None:
            with pytest.raises(exception.ServiceUnavailable):
                ask()
        else:
            assert ask() == code
        server.shutdown()
    assert len(Restarting.seen) == sent
