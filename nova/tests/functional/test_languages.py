"""The same error in the language of the request, over HTTP."""
import uuid

import pytest

from nova.tests.functional import cloud as clouds


@pytest.fixture(scope='module')
def demo(tmp_path_factory):
    with clouds.running(tmp_path_factory.mktemp('languages') / 'state') as made:
        yield made.client(version='2.1')


def test_error_has_the_language_of_the_request(demo):
    name = str(uuid.uuid4())
    found = {}
    for accept in ('', 'de', 'de-CH, en;q=0.1', 'tlh', 'en-GB, de'):
        answer = demo.get(f'/servers/{name}', headers={'Accept-Language': accept} if accept else {})
        assert answer.status_code == 404
        assert 'Accept-Language' in answer.headers['Vary'] and 'OpenStack-API-Version' in answer.headers['Vary']
        found[accept] = answer.headers['Content-Language'], answer.json()['itemNotFound']['message']
    english = 'en', f'Instance {name} could not be found.'
    german = 'de', f'Die Instanz {name} wurde nicht gefunden.'
    assert found == {'': english, 'de': german, 'de-CH, en;q=0.1': german, 'tlh': english, 'en-GB, de': english}


def test_successful_response_has_no_content_language(demo):
    answer = demo.get('/servers', headers={'Accept-Language': 'de'})
    assert answer.status_code == 200 and 'Content-Language' not in answer.headers


def test_a_header_that_is_nonsense_does_no_harm(demo):
    for accept in ('\x7f', 'q' * 8000, ';q=1', 'de;q=1e309', 'de;q=-1', ',' * 900):
        answer = demo.get('/servers/none', headers={'Accept-Language': accept})
        assert answer.status_code in (400, 404, 431), answer.status_code
        assert (answer.headers.get('Connection') == 'close') == (answer.status_code != 404)   # no client reuses it
        if answer.status_code == 404:
            assert answer.headers['Content-Language'] == 'en'
