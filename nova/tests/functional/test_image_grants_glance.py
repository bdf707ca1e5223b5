"""What a compute asks of an image service that is not ours, and with whose token."""
import datetime
import json

import pytest

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova import utils
from nova.cloud import assembly
from nova.image import granted
from nova.image import grants
from nova.tests import image_service
from nova.tests.support import refused_tokens as test_refused_tokens

NAMED, COPY, OTHER = (f'{number}0000000-2222-4333-8444-555555555555' for number in range(1, 4))
USER, OWN = 'of the user', 'own-1'


class Glance(test_refused_tokens.Refusing):
    """An Image service that has every image, and the Keystone of the service's account.

    ``codes`` {token: code} of those that it refuses; ``asked`` [(method, id, token, service token)]
    """

    def __init__(self):
        super().__init__()
        self.codes, self.asked = {}, []

    def __call__(self, environ, start_response):
        if environ['PATH_INFO'].startswith('/keystone'):
            return super().__call__(environ, start_response)
        token, ident = environ.get('HTTP_X_AUTH_TOKEN'), environ['PATH_INFO'].rpartition('/')[2]
        self.asked.append((environ['REQUEST_METHOD'], ident, token, environ.get('HTTP_X_SERVICE_TOKEN')))
        code = self.codes.get(token, 200)
        start_response(f'{code} X', [('Content-Type', 'application/json')])
        return [json.dumps({'id': ident, 'status': 'active', 'name': 'i'}).encode()]


@pytest.fixture
def glance():
    made = Glance()
    with image_service.listening(made) as made.address:
        yield made


@pytest.fixture
def images(glance, tmp_path):
    (tmp_path / 'own.conf').write_text(
        f'[image]\nbackend = glance\n[glance]\nauth_type = password\nauth_url = {glance.address}/keystone/v3\n'
        f'username = nova\npassword = p\nuser_domain_id = default\nendpoint_override = {glance.address}/v2\n')
    return granted.GrantedImages(assembly.remote_images(nova_conf.new(files=[str(tmp_path / 'own.conf')])))


def task(token=USER, ended=False, lifetime_s=3600, is_admin=False):
    """The context of a task that may read NAMED and fill COPY."""
    end = utils.utcnow() + datetime.timedelta(hours=-1 if ended else 1)
    ctx = context.RequestContext(auth_token=token, token_expires_at=end, user_id='u', project_id='p', overwrite=False,
                                 is_admin=is_admin)
    return ctx.granted(grants.dump(grants.make('a server', 'host1', lifetime_s, read=[NAMED], write=[COPY])))


def test_glance_gets_the_token_of_the_user_and_of_the_service(glance, images):
    assert images.show(task(), NAMED)['id'] == NAMED
    assert glance.asked == [('GET', NAMED, USER, OWN)]


@pytest.mark.parametrize('ctx', [task(), task(is_admin=True), task(token=None), task(ended=True)])
def test_images_outside_the_grant_are_not_requested_from_glance(glance, images, ctx):
    for ask in (lambda: images.show(ctx, OTHER), lambda: images.download(ctx, OTHER, '/nonexistent/x'),
                lambda: images.upload(ctx, OTHER, '/nonexistent/x', 'raw'), lambda: images.delete(ctx, OTHER),
                lambda: images.delete(ctx, NAMED), lambda: images.upload(ctx, NAMED, '/nonexistent/x', 'raw')):
        with pytest.raises(exception.ImageNotFound):
            ask()
    with pytest.raises(exception.Forbidden):
        images.backups(ctx, {})
    assert glance.asked == []


def test_expired_user_token_is_replaced_by_that_of_the_service(glance, images):
    """The service goes on with its own, which the grant bounds."""
    glance.codes = {USER: 401}
    assert images.show(task(ended=True), NAMED)['id'] == NAMED
    assert glance.asked == [('GET', NAMED, USER, OWN), ('GET', NAMED, OWN, None)]


def test_task_resumed_after_a_restart_uses_the_service_token(glance, images):
    assert images.show(task(token=None), NAMED)['id'] == NAMED
    assert glance.asked == [('GET', NAMED, OWN, None)]


def test_granted_image_is_not_fetched_once_the_user_may_not_see_it(glance, images):
    """It was there for who asked for the server, and is not any more."""
    glance.codes = {USER: 404}
    with pytest.raises(exception.ImageNotFound):
        images.show(task(), NAMED)
    assert glance.asked == [('GET', NAMED, USER, OWN)]


def test_copy_made_by_an_administrator_is_read_by_the_service(glance, images):
    """It is in the administrator's project; whoever may unshelve the server needs it all the same."""
    glance.codes = {USER: 404}
    assert images.show(task(), COPY)['id'] == COPY
    assert [token for _method, _ident, token, _own in glance.asked] == [USER, OWN]


def test_after_its_end_nothing_is_asked_for(glance, images):
    with pytest.raises(exception.Forbidden):
        images.show(task(lifetime_s=-1), NAMED)
    assert glance.asked == []


def test_a_task_without_a_grant_opens_no_image(glance, images):
    """Neither with the user's own token nor in the name of the service."""
    for ctx in (task(), task(token=None), task(ended=True)):
        with pytest.raises(exception.ImageNotFound):
            images.show(ctx.granted(None), OTHER)
        with pytest.raises(exception.Forbidden):
            images.backups(ctx.granted(None), {})
    assert glance.asked == []
