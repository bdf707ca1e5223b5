"""JSON texts of callers that are nested deeply: each is refused, wherever it stands."""
import json

import pytest

from nova.tests.functional import cloud as cloud_fixture
from nova.web import json_text

BRACKETS = 60000


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('cloud')) as made:
        yield made


def nested(depth, inner='1'):
    return '[' * depth + inner + ']' * depth


@pytest.mark.parametrize('text', [
    '[' * BRACKETS, nested(BRACKETS // 2), '{"a":' * 10000, nested(500), '[{"source_type":' + nested(200) + '}]',
    '9' * 5000, '"x"', 'null', '{}', '[1]', 'NaN'])
def test_deep_image_mapping_returns_400(cloud, text):
    user = cloud.client()
    image_id = user.upload_image(name='made of volumes', block_device_mapping=text, bdm_v2='True')
    server = {'name': 'x', 'flavorRef': '42', 'imageRef': image_id}
    answer = user.post('/servers', {'server': {**server, 'networks': 'none'}}, version='2.60')
    assert answer.status_code == 400, answer.text
    assert 'block_device_mapping' in answer.json()['badRequest']['message']
    assert user.get(f'/image/v2/images/{image_id}').status_code == 200
    assert user.delete(f'/image/v2/images/{image_id}').status_code == 204


BODIES = [
    ('POST', '/servers', '{"server":%s}'), ('POST', '/servers', '{"server":{"name":"a","os:scheduler_hints":%s}}'),
    ('POST', '/image/v2/images', '{"name":%s}'), ('POST', '/image/v2/images', '{"tags":%s}'),
    ('POST', '/image/v2/images', '{"of_mine":%s}'), ('POST', '/network/v2.0/networks', '{"network":{"name":%s}}'),
    ('POST', '/network/v2.0/ports', '{"port":{"fixed_ips":%s}}'),
    ('POST', '/volume/v3/volumes', '{"volume":{"size":1,"metadata":%s}}'),
    ('POST', '/volume/v3/attachments', '{"attachment":{"volume_uuid":"a","instance_uuid":"b","connector":{"a":%s}}}'),
    ('POST', '/identity/v3/auth/tokens', '{"auth":%s}'), ('POST', '/identity/v3/users', '{"user":{"name":%s}}'),
]


@pytest.mark.parametrize('method, path, body', BODIES)
@pytest.mark.parametrize('depth', [40, 250, 1000, BRACKETS // 2])
def test_deeply_nested_body_returns_400(cloud, method, path, body, depth):
    text = body % nested(depth)
    answer = cloud.admin().request(method, path, data=text, headers={'Content-Type': 'application/json'})
    assert answer.status_code == 400 or len(text) > 50000 and answer.status_code == 413, answer.text[:300]


def test_deeply_nested_query_document_is_refused(cloud):
    for text in (nested(1000), nested(40), '{"volume_id":' + nested(300) + '}'):
        answer = cloud.admin().request('DELETE', '/os-assisted-volume-snapshots/a', params={'delete_info': text})
        assert answer.status_code == 400, answer.text


def test_bounds_of_a_text():
    for depth, fits in ((32, True), (33, False), (1500, False)):
        for text in (nested(depth), nested(depth).encode(), '{"a":' * depth + '1' + '}' * depth):
            if fits:
                assert json_text.parse(text) == json.loads(text)
            else:
                with pytest.raises(ValueError):
                    json_text.parse(text)
    assert json_text.parse('[' + ','.join(['[]'] * 1000) + ']') == [[]] * 1000
    for text in ('[' * BRACKETS, 'NaN', '', b'\xff', '"' + 'x' * json_text.MAX_BYTES + '"'):
        with pytest.raises(ValueError):
            json_text.parse(text)
