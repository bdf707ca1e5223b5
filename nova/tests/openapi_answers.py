"""Check of real answers against the OpenAPI description of their API."""
import json
import re

import jsonschema

from nova.identity.rest import handlers as identity_handlers
from nova.identity.rest import openapi as identity_openapi
from nova.image.rest import handlers as image_handlers
from nova.image.rest import openapi as image_openapi
from nova.keymanager.rest import handlers as key_handlers
from nova.keymanager.rest import openapi as key_openapi
from nova.network.rest import app as network_app
from nova.network.rest import openapi as network_openapi
from nova.volume.rest import handlers as volume_handlers
from nova.volume.rest import openapi as volume_openapi
from nova.web import openapi

HEADER = 'OpenStack-API-Version'


class Checker:
    """Answers of one API.

    :param describer: web.openapi.Describer
    :param rows: Route rows
    :param prefix: regular expression of what precedes the path of a row
    :param service: name of the service in the version header; None: there are no microversions
    :param extra: {additional key of the tests in objects that may have any: schema}
    """

    def __init__(self, describer, rows, prefix, service, extra=None):
        self.describer, self.service, self.extra = describer, service, extra
        self._rows = [(re.compile(prefix + re.sub(r'\\?\{\w+\\?\}', '[^/]+', re.escape(row.path)) + '/?$'), row)
                      for row in sorted(rows, key=lambda row: row.path.count('{'))]
        self._validators = {}
        self.seen = set()              # (operation, status) of the checked answers

    def version(self, headers):
        """The minor version of an answer."""
        if self.service is None:
            return 1
        words = headers.get(HEADER, '').split()
        return int(words[1].partition('.')[2]) if words[:1] == [self.service] else None

    def check(self, method, path, sent, status, headers, text):
        """Fail if an answer is not as documented. Paths and methods without an operation are left out.

        :param sent: JSON document of the request, or None
        """
        version = self.version(headers)
        row = self._row('GET' if method == 'HEAD' else method, path, sent, version)
        if row is None or method == 'HEAD' or status == 500:       # tests that provoke a 500 assert it themselves
            return
        name = f'{openapi.operation_of(row)} at {version}: {status}'
        assert status in openapi.codes_of_success(row, version) or status in self.describer.errors_of(row), name
        self.seen.add((openapi.operation_of(row), status))
        schema = self._schema(row, status, version)
        if schema is None:
            assert not text, f'{name} has a body: {text[:300]}'
            return
        if status < 400 and self.describer.media_type(row):
            return
        error = next(schema.iter_errors(json.loads(text)), None)
        assert error is None, f'{name}: {error.message[:300]} at {[*error.absolute_path]}'

    def _row(self, method, path, sent, version):
        if version is None:
            return None
        return next((row for pattern, row in self._rows if row.method == method and row.at(version)
                     and (row.action is None or isinstance(sent, dict) and row.action in sent)
                     and pattern.match(path)), None)

    def _schema(self, row, status, version):
        key = row.method, row.path, row.action, status, version
        if key not in self._validators:
            if status >= 400:
                schema = {**self.describer.fault(status)['content'][openapi.JSON]['schema'],
                          'components': {'schemas': {'Fault': self.describer.fault_schema()}}}
            else:
                schema = self._closed(self.describer.schema(row, status, version))
            self._validators[key] = schema and jsonschema.Draft202012Validator(schema)
        return self._validators[key]

    def _closed(self, schema):
        """A schema whose objects with any additional keys have none but those of the tests."""
        if not self.extra or not isinstance(schema, (dict, list)):
            return schema
        if isinstance(schema, list):
            return [*map(self._closed, schema)]
        found = {key: self._closed(value) for key, value in schema.items()}
        if found.get('additionalProperties') is True:
            found |= {'additionalProperties': False, 'properties': {**self.extra, **found['properties']}}
        return found


VOLUME = Checker(volume_openapi.DESCRIBER, volume_handlers.ROUTES, '/v3(?:/[^/]+)?', 'volume')
IMAGE = Checker(image_openapi.DESCRIBER, image_handlers.ROUTES, '', None)
NETWORK = Checker(network_openapi.DESCRIBER, network_app.ROUTES, '/v2\\.0', None)
IDENTITY = Checker(identity_openapi.DESCRIBER, identity_handlers.ROUTES, '', None, {
    **dict.fromkeys(('own', 'other', 'more', 'unknown', 'team', 'nested', 'floor', 'email', 'name', 'extra',
                     'description', 'parent_id', 'service_id', 'domain_id', 'options', 'is_domain'), {}),
    'password_hash': {'const': 'x'}})                  # a client's attribute, not a hash
KEY_MANAGER = Checker(key_openapi.DESCRIBER, key_handlers.ROUTES, '', 'key-manager')
CHECKERS = {'/identity': IDENTITY, '/image': IMAGE, '/network': NETWORK, '/volume': VOLUME, '/key-manager': KEY_MANAGER}


def check(method, path, sent, status, headers, text):
    """Check an answer of a whole cloud; ``path`` begins with the mount point of an API."""
    for mount, checker in CHECKERS.items():
        if path.startswith(mount + '/'):
            checker.check(method, path.removeprefix(mount).partition('?')[0], sent, status, headers, text)
