"""Grants for images: what the embedded store, and the client before any other image service, let a task have."""
import time
import types

import pytest

from nova import context
from nova import exception
from nova.image.embedded.images import EmbeddedImages
from nova.image import granted
from nova.image import grants
from nova.tests import image_service

OWNER = context.RequestContext(user_id='u', project_id='p', roles=['member'], overwrite=False)
ADMIN = context.admin_context()
SERVER = '6d2f1b5e-3ab4-4c0c-9a58-0c1f2d3e4f50'
NEW = {'name': 'i', 'disk_format': 'raw', 'container_format': 'bare', 'visibility': 'private'}


@pytest.fixture
def images(tmp_path):
    return EmbeddedImages(image_service.store(tmp_path))


def grant(images, ctx=ADMIN, lifetime_s=60, **named):
    """The context of a task with this grant; of an administrator, whose rights must not count."""
    return ctx.granted(images.grant(grants.make(SERVER, 'host1', lifetime_s, **named)))


def add(images, tmp_path, data=b'data', **values):
    """The id of an active image of a project."""
    image = images.create(OWNER, {**NEW, **values})
    path = tmp_path / 'given'
    path.write_bytes(data.ljust(512, b'\0'))
    images.upload(OWNER, image['id'], str(path), 'raw')
    return image['id']


def test_grant_allows_reading_its_named_images_only(images, tmp_path):
    named, other, public = (add(images, tmp_path) for _ in range(3))
    images.update(ADMIN, public, {'visibility': 'public'})
    task, work = grant(images, read=[named.upper(), None]), granted.GrantedImages(images)
    work.download(task, named, str(tmp_path / 'got'))
    assert (tmp_path / 'got').read_bytes().startswith(b'data') and work.show(task, named)['id'] == named
    for asked in (images, work):
        for ident in (other, public):
            with pytest.raises(exception.ImageNotFound):
                asked.show(task, ident)
            with pytest.raises(exception.ImageNotFound):
                asked.download(task, ident, str(tmp_path / 'stolen'))
    with pytest.raises(exception.ImageNotFound):
        work.delete(task, named)
    with pytest.raises(exception.Forbidden):
        images.delete(task, named)
    with pytest.raises(exception.Forbidden):
        images.update(task, named, {'properties': {'a': 'b'}})
    with pytest.raises(exception.Forbidden):
        images.create(grants.holder(ADMIN, task.image_grant), NEW)
    assert images.list(task) == []


def test_a_task_fills_the_image_that_was_made_for_it_and_no_other(images, tmp_path):
    mine, other = (images.create(OWNER, NEW)['id'] for _ in range(2))
    task, work = grant(images, write=[mine]), granted.GrantedImages(images)
    (tmp_path / 'copy').write_bytes(b'\0' * 512)
    work.upload(task, mine, str(tmp_path / 'copy'), 'raw')
    assert images.show(OWNER, mine)['status'] == 'active'
    for asked in (images, work):
        with pytest.raises(exception.ImageNotFound):
            asked.upload(task, other, str(tmp_path / 'copy'), 'raw')
        with pytest.raises(exception.ImageNotFound):
            asked.delete(task, other)
    work.delete(task, mine)
    assert images.show(OWNER, other)['status'] == 'queued'


def test_a_signature_of_somebody_else_is_none(images, tmp_path):
    ident = add(images, tmp_path)
    wanted = grants.make(SERVER, 'host1', 60, read=[ident])
    for text in (grants.dump(wanted), grants.dump(wanted, grants.new_key()), '', 'x.y', '.',
                 grant(images, read=[SERVER]).image_grant.partition('.')[2]):
        with pytest.raises(exception.Forbidden):
            images.show(ADMIN.granted(text), ident)
    body, _dot, signature = grant(images, read=[SERVER]).image_grant.partition('.')
    forged = f'{grants.dump(wanted).partition(".")[0]}.{signature}'
    with pytest.raises(exception.Forbidden):
        images.show(ADMIN.granted(forged), ident)
    assert images.show(grant(images, read=[ident]), ident)['id'] == ident


def test_grant_expires_after_its_lifetime(images, tmp_path, monkeypatch):
    ident = add(images, tmp_path)
    task = grant(images, lifetime_s=60, read=[ident])
    assert images.show(task, ident)
    monkeypatch.setattr(grants, 'time', types.SimpleNamespace(time=lambda: time.time() + 61))
    for asked in (images, granted.GrantedImages(images)):
        with pytest.raises(exception.Forbidden, match='expired'):
            asked.show(task, ident)


def test_without_a_grant_a_host_has_nothing(images, tmp_path):
    """Neither as an administrator nor in the name of the user: his token is what counts, and there is none."""
    ident = add(images, tmp_path)
    images.update(ADMIN, ident, {'visibility': 'public'})
    for ctx in (ADMIN, OWNER, context.on_behalf_of({'project_id': 'p', 'user_id': 'u'})):
        with pytest.raises(exception.ImageNotFound):
            granted.GrantedImages(images).show(ctx, ident)


def test_a_deactivated_image_is_not_given(images, tmp_path):
    ident = add(images, tmp_path)
    images.store.set_active(ADMIN, ident, False)
    with pytest.raises(exception.Forbidden, match='deactivated'):
        images.download(grant(images, read=[ident]), ident, str(tmp_path / 'got'))


def test_a_rotation_removes_backups_of_its_server_and_owner_alone(images, tmp_path):
    def backup(server=SERVER, kind='backup', **values):
        return add(images, tmp_path, properties={'image_type': kind, 'instance_uuid': server}, **values)
    new, old = backup(), backup()
    another, plain, elsewhere = backup('another'), backup(kind='snapshot'), backup()
    images.update(ADMIN, elsewhere, {'owner': 'other', 'visibility': 'community'})
    task, work = grant(images, write=[new], rotate=True), granted.GrantedImages(images)
    assert {image['id'] for image in work.backups(task, {'status': 'active'})} == {new, old}
    for ident in (another, plain, elsewhere):
        for asked in (images, work):
            with pytest.raises(exception.ImageNotFound):
                asked.delete(task, ident)
    work.delete(task, old)
    with pytest.raises(exception.InvalidMarker):                # another one has deleted it between two pages
        work.backups(task, {'status': 'active'}, old)
    with pytest.raises(exception.Forbidden):
        work.backups(grant(images, write=[new]), {})
    assert images.list(grant(images, write=[new])) == []


def test_image_grant_is_not_sent_to_other_services(images):
    assert 'image_grant' not in grant(images).to_dict()
    assert context.RequestContext.from_dict(grant(images).to_dict()).image_grant is None
