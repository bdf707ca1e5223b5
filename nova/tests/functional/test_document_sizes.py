"""Documents that callers extend: what one resource and one page have at most, and the memory after large answers."""
import pathlib
import time
import uuid

import pytest
import sqlalchemy as sa

from nova import utils
from nova.db.tables import cell as t_cell
from nova.db.tables import image as t_image
from nova.db.tables import volume as t_volume
from nova.runtime import memory
from nova.tests import server_rows
from nova.tests.functional import cloud as whole
from nova.tests.support import volumes
from nova.web import sizes

PATCH = {'Content-Type': 'application/openstack-images-v2.1-json-patch'}


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with whole.running(tmp_path_factory.mktemp('sizes')) as made:
        made.demo, made.boss = made.client(version='2.96'), made.admin(version='2.96')
        made.image = made.demo.upload_image()
        yield made


def every_page(client, path, key, links):
    """[(bytes of a page, its items)] of a list, by its links."""
    found = []
    while path:
        answer = client.get(path)
        assert answer.status_code == 200, (path, answer.text[:300])
        document = answer.json()
        found.append((len(answer.content), document[key]))
        path = links(document)
        path = path and path.removeprefix(client.url)
        if path and path.startswith('/v2/images'):
            path = '/image' + path
    return found


def next_of(key):
    return lambda document: next((link['href'] for link in document.get(f'{key}_links', ()) if link['rel'] == 'next'),
                                 None)


def test_an_image_has_a_bound(cloud):
    """128 properties of 64 kB made a document of 8 MB."""
    demo, path = cloud.demo, f'/image/v2/images/{cloud.image}'
    assert demo.request('PATCH', path, [{'op': 'add', 'path': '/p0', 'value': 'x' * 65535}],
                        headers=PATCH).status_code == 200
    answer = demo.request('PATCH', path, [{'op': 'add', 'path': '/p1', 'value': 'x' * 65535}], headers=PATCH)
    assert answer.status_code == 413 and str(sizes.IMAGE) in answer.text
    made = demo.post('/image/v2/images', {'name': 'n', **{f'p{number}': '\x01' * 30000 for number in range(3)}})
    assert made.status_code in (400, 413)
    assert len(demo.get(path).content) <= sizes.RESOURCE
    assert demo.request('PATCH', path, [{'op': 'remove', 'path': '/p0'}], headers=PATCH).status_code == 200


LONG = {f'{number:03}' + '\U0001f600' * 252: '\U0001f600' * 255 for number in range(128)}       # 260 kB of JSON
FULL = {f'{number:03}' + 'k' * 252: 'v' * 255 for number in range(128)}


@pytest.mark.parametrize('kind', ['volume', 'snapshot', 'server', 'group'])
def test_metadata_have_a_bound(cloud, kind):
    demo = cloud.demo
    if kind == 'server':
        made = demo.boot(cloud.image, networks='none')['id']
        demo.wait_for(made)
        path = f'/servers/{made}'
    elif kind == 'group':
        made = demo.post('/os-server-groups', {'server_group': {'name': 'g', 'policy': 'affinity'}}).json()
        path = f'/os-server-groups/{made["server_group"]["id"]}'
    else:
        volume = volumes.volume(demo)
        made = demo.post('/volume/v3/snapshots', {'snapshot': {'volume_id': volume}}) if kind == 'snapshot' else None
        path = f'/volume/v3/snapshots/{made.json()["snapshot"]["id"]}' if made else f'/volume/v3/volumes/{volume}'
    # keys of servers are ASCII; their values are not
    long = {f'k{number}': '\U0001f600' * 255 for number in range(128)} if kind in ('server', 'group') else LONG
    for method in ('POST', 'PUT'):
        answer = demo.request(method, path + '/metadata', {'metadata': long})
        assert answer.status_code == 413, (kind, method, answer.status_code, answer.text[:300])
        answer = demo.request(method, path + '/metadata', {'metadata': FULL if kind not in ('server', 'group') else {
            f'{number:03}' + 'k' * 252: 'v' * 255 for number in range(128)}})
        assert answer.status_code == 200, (kind, method, answer.text[:300])
    assert len(demo.get(path).content) <= sizes.RESOURCE


def test_extra_specs_of_a_flavor_have_a_bound(cloud):
    made = cloud.boss.post('/flavors', {'flavor': {'name': 'big', 'ram': 1, 'vcpus': 1, 'disk': 0}}).json()[
        'flavor']['id']
    codes = [cloud.boss.post(f'/flavors/{made}/os-extra_specs', {'extra_specs': {
        f'own:k{part}-{number}': 'v' * 255 for number in range(50)}}).status_code for part in range(7)]
    assert codes == [200] * 5 + [413] * 2


def rss():
    """Kilobytes of this process that are in memory."""
    return int(next(line.split()[1] for line in pathlib.Path('/proc/self/status').read_text().splitlines()
                    if line.startswith('VmRSS')))


def test_a_page_of_images_ends_early(cloud):
    """What an earlier release stored, which had no bound: a page of 240 MB, after which the process kept 1.7 GB."""
    demo, now = cloud.demo, utils.utcnow()
    idents = [str(uuid.uuid4()) for _ in range(60)]
    value = 'v' * 65535
    with cloud.api_db.writer() as conn:
        row = dict(conn.execute(sa.select(t_image.images).where(t_image.images.c.id == cloud.image)).mappings().one())
        conn.execute(sa.insert(t_image.images), [{**row, 'id': ident, 'name': f'i{number}', 'created_at': now,
                                                  'data_id': None, 'status': 'queued'}
                                                 for number, ident in enumerate(idents)])
        conn.execute(sa.insert(t_image.image_properties), [
            {'image_id': ident, 'name': f'p{number}', 'value': value} for ident in idents for number in range(8)])
    every_page(demo, '/image/v2/images?limit=1000', 'images', lambda document: document.get('next'))      # fills caches
    time.sleep(2 * memory.DELAY_S)
    before = rss()
    pages = every_page(demo, '/image/v2/images?limit=1000', 'images', lambda document: document.get('next'))
    assert {*idents} <= {image['id'] for _size, page in pages for image in page}
    assert len([image for _size, page in pages for image in page]) == len({
        image['id'] for _size, page in pages for image in page})
    assert 1 < len(pages) and max(size for size, _page in pages) <= sizes.PAGE + 1024
    del pages
    deadline = time.monotonic() + 60
    while rss() > before * 1.1 and time.monotonic() < deadline:
        time.sleep(1)
        demo.get('/image/v2/images?limit=1')
    assert rss() <= before * 1.1, (before, rss())
    pages = every_page(cloud.client(version='2.1'), '/compute/v2.1/images/detail?limit=1000', 'images',
                       next_of('images'))
    assert 1 < len(pages) and max(size for size, _page in pages) <= sizes.PAGE + 1024
    with cloud.api_db.writer() as conn:
        for table, column in ((t_image.images, 'id'), (t_image.image_properties, 'image_id')):
            conn.execute(sa.delete(table).where(table.c[column].in_(idents)))


def test_pages_of_servers_and_volumes_end_early(cloud):
    demo, now = cloud.demo, utils.utcnow()
    metadata = {f'k{number}': 'v' * 255 for number in range(330)}
    servers = [server_rows.row(number, project_id=demo.project_id, user_id=demo.user_id, metadata=metadata)
               for number in range(1000, 1120)]
    with cloud.cell_db.writer() as conn:
        server_rows.insert(conn, servers)
    with cloud.api_db.reader() as conn:
        volume = dict(conn.execute(sa.select(t_volume.volumes).limit(1)).mappings().first() or {})
    try:
        pages = every_page(demo, '/servers/detail', 'servers', next_of('servers'))
        shown = [server['id'] for _size, page in pages for server in page]
        assert len(shown) == len(set(shown)) and {row['uuid'] for row in servers} <= set(shown)
        assert len(pages) == 2 and pages[0][0] <= sizes.PAGE + 1024
    finally:
        with cloud.cell_db.writer() as conn:
            conn.execute(sa.delete(t_cell.instances).where(
                t_cell.instances.c.uuid.in_([row['uuid'] for row in servers])))
    assert volume
    idents = [str(uuid.uuid4()) for _ in range(120)]
    with cloud.api_db.writer() as conn:
        conn.execute(sa.insert(t_volume.volumes), [{**volume, 'id': ident, 'metadata': metadata, 'created_at': now}
                                                   for ident in idents])
    try:
        pages = every_page(demo, '/volume/v3/volumes/detail', 'volumes', next_of('volumes'))
        shown = [row['id'] for _size, page in pages for row in page]
        assert len(shown) == len(set(shown)) and {*idents} <= set(shown)
        assert len(pages) == 2 and pages[0][0] <= sizes.PAGE + 1024
    finally:
        with cloud.api_db.writer() as conn:
            conn.execute(sa.delete(t_volume.volumes).where(t_volume.volumes.c.id.in_(idents)))
