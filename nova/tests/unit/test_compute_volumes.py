"""Volumes of a server on its host, without a guest."""
import threading
import types

import pytest

from nova import conf as nova_conf
from nova import exception
from nova.compute import volumes
from nova.tests.support import waiting


def test_the_wait_for_volumes_ends_when_the_service_stops(monkeypatch):
    """The loop asked for the volumes without a pause until its timeout."""
    monkeypatch.setattr(volumes, 'POLL_S', 600)
    asked, stopping = [], threading.Event()

    def prepare_volumes(_ctx, **which):
        asked.append(which)
        return [{'volume_id': 'v', 'destination_type': 'volume', 'connection_info': None}]
    conf = nova_conf.new(files=[])
    conf.set_override('ready_timeout', 5, group='volume')
    host = types.SimpleNamespace(
        conf=conf, stopping=stopping, driver=types.SimpleNamespace(get_feature=lambda _feature: None),
        volumes=types.SimpleNamespace(prepare_volumes=prepare_volumes))
    server = types.SimpleNamespace(uuid='u', vm_state='active')
    spec, ended = types.SimpleNamespace(block_devices=[]), []

    def connect():
        with pytest.raises(exception.ServiceStopping):
            volumes.Volumes(host).connect(None, server, spec)
        ended.append(True)
    thread = threading.Thread(target=connect)
    thread.start()
    waiting.wait_for(lambda: asked)
    stopping.set()
    thread.join(20)
    assert ended and len(asked) == 1


@pytest.mark.parametrize('error', [OSError('no qemu-img'), exception.InvalidVolume(reason='no')])
def test_each_failure_of_a_copy_is_reported(error):
    """The volume service waits for the report."""
    reports = []

    def fail():
        raise error
    host = types.SimpleNamespace(volumes=types.SimpleNamespace(
        volume_snapshot_status=lambda _ctx, **which: reports.append(which)))
    volumes.VolumeSnapshots(host)._work(None, 's', 'creating', fail)
    assert reports == [{'snapshot_id': 's', 'status': 'error', 'progress': '0%'}]
