"""What tests share with nova/tests/functional/test_core_shelve.py."""
import threading

import pytest

from nova import exception
from nova.tests import core

IMAGE = '70a599e0-31e7-49b7-b260-868f441e8621'
SHELVE = {'image_id': IMAGE, 'clean_shutdown': True}
RESCUE = {'image_id': core.IMAGE['id'], 'admin_password': 'canary', 'clean_shutdown': True}


@pytest.fixture
def cloud(tmp_path, request):
    made = core.Cloud(tmp_path, **{'hosts': ('host1', 'host2'), **getattr(request, 'param', {})})
    yield made
    made.close()


def shelve(cloud, uuid, settle=True):
    cloud.images.unfinished.add(IMAGE)
    cloud.act(uuid, 'shelve', **SHELVE)
    if settle:
        cloud.settle()


def unshelve(cloud, uuid, **arguments):
    cloud.act(uuid, 'unshelve', **arguments)
    cloud.settle()


def state(cloud, uuid):
    row = cloud.row(uuid)
    return row['vm_state'], row['task_state'], row['host']


def kill_in(cloud, operation, act, host=None):
    """Kill the host's compute, by default that of the only one, while its driver is in this operation; the host."""
    host = host or next(iter(cloud.computes))
    cloud.kill_in(host, operation, act)
    return host


def core_threads(count, function):
    """How many of several calls at once were not refused."""
    start, won, errors = threading.Barrier(count), [], []

    def run():
        start.wait()
        try:
            won.append(function())
        except exception.Conflict:
            pass
        except Exception as error:
            errors.append(error)
    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    return len(won)
