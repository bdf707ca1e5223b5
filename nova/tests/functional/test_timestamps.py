"""Forms of the timestamps of every response, compared with the samples of the API references.

Clients parse a field with one layout: a Go client that expects no zone rejects the whole list for one ``Z``.
"""
import re
import urllib.parse

import pytest

from nova.tests.functional import cloud as cloud_fixture
from nova.tests.functional.callers_cloud import *  # noqa: F403
from nova.tests.support import callers as test_callers
from nova.tests.support import isolation

SECONDS = re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ')                  # 2026-11-28T14:34:39Z
EXACT = re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}')              # 2026-11-28T14:34:39.000000
EXACT_ZONED = re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z')       # 2026-11-28T14:34:39.000000Z
SPACED = re.compile(r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d')                    # 2026-11-28 14:34:39
TIME = re.compile(r'\d{4}-\d\d-\d\d[T ]\d\d:\d\d')

# (face, collection, key): the form in the reference's sample. '' is every other collection of the face.
FORMS = {
    ('compute', '', 'created'): SECONDS,                                 # servers, their faults, images
    ('compute', '', 'updated'): SECONDS,                                 # servers, images, versions, extensions
    ('compute', '', 'since'): SECONDS,                                   # usage of servers and hypervisors
    ('compute', '', 'OS-SRV-USG:launched_at'): EXACT,
    ('compute', 'os-instance-actions', 'start_time'): EXACT,
    ('compute', 'os-instance-actions', 'finish_time'): EXACT,
    ('compute', 'os-instance-actions', 'updated_at'): EXACT,
    ('compute', 'os-services', 'updated_at'): EXACT,
    ('compute', 'os-availability-zone', 'updated_at'): EXACT,
    ('compute', 'os-aggregates', 'created_at'): EXACT,
    ('compute', 'os-aggregates', 'updated_at'): EXACT,
    ('compute', 'os-keypairs', 'created_at'): EXACT,
    ('compute', 'os-migrations', 'created_at'): EXACT,
    ('compute', 'os-migrations', 'updated_at'): EXACT,
    ('compute', 'os-networks', 'created_at'): EXACT,
    ('compute', 'os-networks', 'updated_at'): EXACT,
    ('compute', 'os-volumes', 'createdAt'): EXACT,
    ('compute', 'os-snapshots', 'createdAt'): EXACT,
    ('compute', 'os-simple-tenant-usage', 'start'): EXACT,
    ('compute', 'os-simple-tenant-usage', 'stop'): EXACT,
    ('compute', 'os-simple-tenant-usage', 'started_at'): EXACT,
    ('compute', 'os-instance_usage_audit_log', 'period_beginning'): SPACED,
    ('compute', 'os-instance_usage_audit_log', 'period_ending'): SPACED,
    ('compute', 'limits', 'next-available'): SECONDS,
    # additions of this product
    ('compute', 'os-instance-categories', 'created_at'): SECONDS,
    ('compute', 'os-metrics', 'at'): SECONDS,
    ('compute', 'os-audit', 'created_at'): EXACT_ZONED,
    ('image', '', 'created_at'): SECONDS,
    ('image', '', 'updated_at'): SECONDS,
    ('volume', '', 'created_at'): EXACT,
    ('volume', '', 'updated_at'): EXACT,
    ('volume', '', 'attached_at'): EXACT,
    ('volume', 'backups', 'data_timestamp'): EXACT,
    ('volume', 'versions', 'updated'): SECONDS,
    ('identity', '', 'issued_at'): EXACT_ZONED,
    ('identity', '', 'expires_at'): EXACT_ZONED,
    ('identity', '', 'password_expires_at'): EXACT,
    ('identity', 'application_credentials', 'expires_at'): EXACT,
    ('identity', '', 'updated'): SECONDS,
}
PREFIX = re.compile(r'/(compute|image|volume|identity)/?(?:v[0-9.]+/?)?(.*)')


def collection_of(rest):
    """The part of a path that names the kind of what a response shows."""
    named = [part for part in rest.split('/') if part]
    known = {key for _face, key, _name in FORMS if key}
    return next((part for part in reversed(named) if part in known), 'versions' if not named else '')


def times(value, key=''):
    """(key, text) of each timestamp in a document."""
    if isinstance(value, dict):
        for name, below in value.items():
            yield from times(below, name)
    elif isinstance(value, list):
        for below in value:
            yield from times(below, key)
    elif isinstance(value, str) and TIME.match(value):
        yield key, value


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('timestamps'), ['host1', 'host2'],
                               identity__password_expires_days=30, api__rate_limits=['GET * .* 100000 DAY']) as made:
        yield made


@pytest.fixture(scope='module')
def found(identity):
    """{(face, collection, key): {text}} of every response that the session of the callers gets."""
    seen = {}

    def look(answer, **_more):
        matched = PREFIX.fullmatch(urllib.parse.urlsplit(answer.url).path)
        if matched is None or not answer.content or 'json' not in answer.headers.get('Content-Type', ''):
            return
        face, collection = matched[1], collection_of(matched[2])
        for key, text in times(answer.json()):
            place = (face, collection, key)
            seen.setdefault(place if place in FORMS else (face, '', key), set()).add(text)
    identity.admin.session.hooks['response'].append(look)
    return seen


@pytest.fixture
def asked(cloud, found, identity, owner, things):
    """Every document of the four APIs has been read, as its owner and as an administrator."""
    admin = identity.admin
    isolation.one(admin, '/os-aggregates', 'aggregate', name='timed', availability_zone='timed')
    isolation.one(admin, '/os-instance-categories', 'instance_category', name='timed')
    admin.put('/os-aggregates/1', {'aggregate': {'name': 'timed again'}})
    isolation.one(owner, f'/identity/v3/users/{owner.user_id}/application_credentials', 'application_credential',
                  name='timed', expires_at='2036-01-01T00:00:00Z')
    for face in ('compute', 'image', 'volume'):
        for row in test_callers.FACES[face]():
            name, method, pattern, version, *_rest = row
            if method == 'GET' and not pattern.endswith(('/file', *test_callers.STREAMS)):
                path = test_callers.path_of(face, pattern, things, '1')
                for caller in (admin, owner):
                    answer = caller.get(path, version=version)
                    assert answer.status_code < 500 or answer.status_code in row[5], (name, answer.text)
    admin.get('/volume/')
    for caller in (admin, owner):
        for path in ('', f'/users/{owner.user_id}', '/users', '/projects', '/auth/tokens',
                     f'/users/{owner.user_id}/application_credentials'):
            caller.request('GET', '/identity/v3' + path, headers={'X-Subject-Token': owner.token})
    return found


def test_each_timestamp_has_the_form_of_the_references_sample(asked):
    wrong = {place: sorted(texts)[:2] for place, texts in asked.items()
             if place not in FORMS or not all(FORMS[place].fullmatch(text) for text in texts)}
    assert not wrong, '\n'.join(f'{place}: {texts}' for place, texts in sorted(wrong.items()))
    assert sorted(FORMS.keys() - asked.keys()) == []
