"""Requests to other services of the cloud."""
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
