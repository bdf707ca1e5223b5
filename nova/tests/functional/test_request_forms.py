"""Forms of requests that clients send: references as URLs, compressed bodies, and keys of metadata."""
import gzip
import json

import pytest

from nova.tests.functional import cloud as cloud_fixture

ELSEWHERE = 'http://openstack.example.com/openstack'
GZIP = {'Content-Encoding': 'gzip', 'Content-Type': 'application/json'}


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('forms')) as made:
        yield made


@pytest.fixture(scope='module')
def demo(cloud):
    return cloud.client()


@pytest.fixture(scope='module')
def image(demo):
    return demo.upload_image()


def test_a_flavor_and_an_image_are_given_by_their_urls(demo, image):
    """The API guide's example of POST /servers has URLs of another host; their last parts are the ids."""
    links = demo.get(f'/compute/v2.1/images/{image}', version='2.35').json()['image']['links']
    hrefs = [each['href'] for each in links] + [f'{ELSEWHERE}/images/{image}']
    flavor = [each['href'] for each in demo.get('/flavors/42').json()['flavor']['links']]
    server = None
    for href, wanted in zip(hrefs, [*flavor, f'{ELSEWHERE}/flavors/42', flavor[0]], strict=True):
        server = demo.boot(href, flavor=wanted, networks='none', version='2.37')['id']
        shown = demo.wait_for(server)
        assert (shown['image']['id'], shown['flavor']['id']) == (image, '42')
    for action in ({'rebuild': {'imageRef': f'{ELSEWHERE}/images/{image}'}},
                   {'rescue': {'rescue_image_ref': f'{ELSEWHERE}/images/{image}'}}, {'unrescue': None}):
        answer = demo.post(f'/servers/{server}/action', action)
        assert answer.status_code in (200, 202), answer.text
        demo.wait_for(server, 'RESCUE' if 'rescue' in action else 'ACTIVE')
    answer = demo.post(f'/servers/{server}/action', {'resize': {'flavorRef': f'{ELSEWHERE}/flavors/1'}})
    assert answer.status_code == 202, answer.text
    assert demo.wait_for(server, 'VERIFY_RESIZE')['flavor']['id'] == '1'


@pytest.mark.parametrize('fields', [
    {'imageRef': f'{ELSEWHERE}/images/00000000-0000-4000-8000-000000000000'}, {'imageRef': f'{ELSEWHERE}/images/x'},
    {'imageRef': f'{ELSEWHERE}/images/'}, {'imageRef': 'ftp://openstack.example.com/images/{image}'},
    {'imageRef': f'{ELSEWHERE}/flavors/{{image}}'}, {'imageRef': f'{ELSEWHERE}/images/{{image}}?a=b'},
    {'flavorRef': f'{ELSEWHERE}/flavors/none'}, {'flavorRef': f'{ELSEWHERE}/images/42'}, {'flavorRef': 'x' * 1300}])
def test_a_url_that_names_nothing_of_this_cloud_is_refused(demo, image, fields):
    given = {name: value.replace('{image}', image) for name, value in fields.items()}
    answer = demo.post('/servers', {'server': {'name': 'x', 'imageRef': image, 'flavorRef': '42', **given}})
    assert answer.status_code == 400, answer.text


def test_the_alternate_link_of_an_image_shows_it(demo, image):
    shown = demo.get(f'/compute/v2.1/images/{image}', version='2.35').json()['image']
    alternate, = (each['href'] for each in shown['links'] if each['rel'] == 'alternate')
    answer = demo.session.get(alternate, headers={'X-Auth-Token': demo.token})
    assert answer.status_code == 200 and answer.json()['id'] == image


@pytest.mark.parametrize('path, body', [
    ('/servers', {'server': {}}), ('/image/v2/images', {'name': 'a'}), ('/network/v2.0/networks', {'network': {}}),
    ('/volume/v3/volumes', {'volume': {'size': 1}}), ('/identity/v3/auth/tokens', {'auth': {}}),
    ('/identity/v3/users', {'user': {}})])
def test_a_compressed_body_is_an_unsupported_media_type(cloud, path, body):
    admin = cloud.admin()
    packed = gzip.compress(json.dumps(body).encode())
    answer = admin.request('POST', path, data=packed, headers=GZIP)
    assert answer.status_code == 415 and 'Content-Encoding' in answer.text, answer.text
    answer = admin.request('POST', path, data=json.dumps(body), headers={**GZIP, 'Content-Encoding': 'identity'})
    assert answer.status_code != 415


def test_a_compressed_upload_of_an_image_is_refused(demo):
    made = demo.post('/image/v2/images', {'name': 'a', 'disk_format': 'raw', 'container_format': 'bare'}).json()['id']
    answer = demo.request('PUT', f'/image/v2/images/{made}/file', data=gzip.compress(b'\0' * 512),
                          headers={'Content-Encoding': 'gzip', 'Content-Type': 'application/octet-stream'})
    assert answer.status_code == 415
    assert demo.get(f'/image/v2/images/{made}').json()['status'] == 'queued'


@pytest.mark.parametrize('key', ['a/b', 'ä', '', 'x' * 256])
def test_the_error_about_a_key_of_metadata_names_the_rule(cloud, demo, image, key):
    rule = "A key has 1 to 255 characters of a-z, A-Z, 0-9, '-', '_', ':', '.' and the space."
    admin = cloud.admin()
    for caller, path, body in (
            (demo, '/servers', {'server': {'name': 'x', 'imageRef': image, 'flavorRef': '42', 'metadata': {key: 'v'}}}),
            (admin, '/flavors/42/os-extra_specs', {'extra_specs': {key: 'v'}})):
        answer = caller.post(path, body)
        assert answer.status_code == 400 and rule in answer.json()['badRequest']['message'], answer.text
