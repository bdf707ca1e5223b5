"""Operations and fields of the frozen OpenAPI documents: none is removed or narrowed without a new major version."""
import copy
import functools
import json
import re

import pytest

from nova.api import app
from nova.api import openapi
from nova.api import versions
from nova.tests.contract import openapi_changes
from nova.tests.contract import openapi_documents

FROZEN = openapi_changes.frozen()
# of JSON Schema; a validator does not know others
FORMATS = {'date-time', 'ipv4', 'ipv6', 'regex', 'uri', 'uuid'}


@functools.cache
def current(name):
    return openapi_documents.DOCUMENTS[name]()


def test_each_api_is_frozen():
    assert FROZEN.keys() == openapi_documents.DOCUMENTS.keys()


@pytest.mark.parametrize('name', FROZEN)
def test_nothing_is_removed_or_narrowed(name):
    assert openapi_changes.narrowed(FROZEN[name], current(name)) == []


@pytest.mark.parametrize('name', FROZEN)
def test_formats_are_those_of_json_schema(name):
    """A quota, which may be -1, had the format "integer from -1 to 2147483647"."""
    assert set(re.findall('"format": "([^"]+)"', json.dumps(openapi_changes.stripped(current(name))))) <= FORMATS


@pytest.fixture(scope='module')
def document():
    return openapi_changes.stripped(openapi.document(app.all_routes(), versions.MAX_VERSION, openapi.SPLIT))


def answer(document):
    return document['paths']['/servers/{id}']['get']['responses']['200']['content'][openapi.JSON]['schema'][
        'properties']['server']


def body(document):
    return document['paths']['/servers']['post']['requestBody']['content'][openapi.JSON]['schema'][
        'properties']['server']


def remove_field(document):
    del answer(document)['properties']['status']


def remove_operation(document):
    del document['paths']['/flavors']['get']


def remove_parameter(document):
    parameters = document['paths']['/flavors']['get']['parameters']
    parameters.remove(next(each for each in parameters if each.get('name') == 'minRam'))


def refuse_field(document):
    del body(document)['properties']['key_name']


def require_field(document):
    body(document)['required'].append('key_name')


def shorten(document):
    body(document)['properties']['name']['maxLength'] = 9


def answer_null(document):
    answer(document)['properties']['id']['type'] = ['string', 'null']


def remove_action(document):
    del document['paths']['/servers/{id}/action#reboot']


@pytest.mark.parametrize(('change', 'text'), [
    (remove_field, 'GET /servers/{id}: 200.server.status was removed'),
    (remove_operation, 'GET /flavors was removed'),
    (remove_parameter, 'GET /flavors: the parameter minRam was removed'),
    (refuse_field, 'POST /servers: body.server.key_name was removed'),
    (require_field, 'POST /servers: body.server.key_name is required'),
    (shorten, 'POST /servers: body.server.name has the maxLength 9 (before: 255)'),
    (answer_null, 'GET /servers/{id}: 200.server.id may be null'),
    (remove_action, 'POST /servers/{id}/action#reboot was removed')], ids=lambda value: getattr(value, '__name__', ''))
def test_a_change_that_breaks_clients_is_found(document, change, text):
    changed = copy.deepcopy(document)
    change(changed)
    assert text in openapi_changes.narrowed(document, changed)


@pytest.mark.parametrize('change', [
    lambda document: answer(document)['properties'].update(more={'type': 'string'}),
    lambda document: body(document)['properties'].update(more={'type': 'string'}),
    lambda document: body(document)['properties']['name'].update(maxLength=999)])
def test_an_addition_is_no_break(document, change):
    changed = copy.deepcopy(document)
    change(changed)
    assert openapi_changes.narrowed(document, changed) == []
