"""What tests share with nova/tests/functional/test_live_cloud.py."""
import pytest

from nova.db.networks import ports
from nova.db.placement import claims
from nova.tests.support import waiting
from nova.tests.functional import cloud as clouds
from nova.tests.support.waiting import wait_for

HOSTS = ['host1', 'host2', 'host3']


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with clouds.running(tmp_path_factory.mktemp('live') / 'state', hosts=HOSTS) as made:
        made.demo, made.boss = made.client(version='2.104'), made.admin('2.104')
        made.image = made.demo.upload_image()
        yield made


def compute(cloud, host):
    return next(part for part in cloud.services if part.binary == 'nova-compute' and part.host == host)


def driver(cloud, host):
    return compute(cloud, host).manager.driver


def shown(cloud, server_id):
    return cloud.boss.get(f'/servers/{server_id}').json()['server']


def home(cloud, server_id):
    return shown(cloud, server_id)['OS-EXT-SRV-ATTR:host']


def boot(cloud, host='host1', **fields):
    made = cloud.boss.boot(cloud.image, networks='auto', host=host, **fields)
    cloud.boss.wait_for(made['id'])
    return made['id']


def act(cloud, server_id, name, **body):
    return cloud.boss.post(f'/servers/{server_id}/action', {name: body})


def guests(cloud, server_id):
    return [host for host in HOSTS if server_id in driver(cloud, host).guests()]


def check(cloud, server_id):
    """One guest, where the row says; ports there; claims that add up."""
    waiting.settled(lambda: check_now(cloud, server_id))


def check_now(cloud, server_id):
    host = home(cloud, server_id)
    assert guests(cloud, server_id) == [host]
    with cloud.api_db.reader() as conn:
        rows = ports.of_device(conn, server_id)
    assert rows and {(row['host'], row['migrating_to']) for row in rows} == {(host, '')}
    assert cloud.cell_db.run(claims.audit) == []


def _settled(cloud, server_id):
    with cloud.api_db.reader() as conn:
        return {row['migrating_to'] for row in ports.of_device(conn, server_id)} == {''}


def volume(cloud, size=1):
    made = cloud.boss.post('/volume/v3/volumes', {'volume': {'size': size}})
    assert made.status_code == 202, made.text
    volume_id = made.json()['volume']['id']
    wait_for(lambda: look(cloud, volume_id)['status'] == 'available', what='no volume')
    return volume_id


def look(cloud, volume_id):
    return cloud.boss.get(f'/volume/v3/volumes/{volume_id}').json()['volume']
