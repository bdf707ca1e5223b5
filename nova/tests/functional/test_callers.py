"""Every operation of every face, asked by callers of every kind about what belongs to another project.

The rows are those of the faces themselves, so that a new operation is asked, too; an open part of a path of which
nobody has said here what it names fails a test.
"""
import json
import re

import pytest

from nova.identity.rest import handlers as identity_handlers
from nova.tests import long_runs
from nova.tests.contract import samples
from nova.tests.functional.callers_cloud import *  # noqa: F403
from nova.tests.support import isolation
from nova.tests.support.callers import FACES
from nova.tests.support.callers import MISSING
from nova.tests.support.callers import ask
from nova.tests.support.callers import kinds
from nova.tests.support.callers import path_of
from nova.tests.support.callers import text_of


# these belong to what stands before them
BELOW = ('request', 'metadata_key', 'tag', 'server_port', 'migration', 'port_forwarding')
SHARE = 3              # one in so many callers asks for an operation, in turn; in long runs all of them do
# ---- the rows ----------------------------------------------------------------

def everything(owner, things):
    """What there is of the project, as its owner sees it."""
    found = isolation.everything(owner, things)
    for path in ('/servers/detail', '/os-server-groups', '/network/v2.0/networks', '/network/v2.0/subnets',
                 '/network/v2.0/ports', '/network/v2.0/security-groups', '/image/v2/images',
                 '/volume/v3/volumes/detail', '/volume/v3/snapshots', '/volume/v3/attachments',
                 '/volume/v3/backups/detail', '/volume/v3/volume-transfers/detail',
                 '/flavors/private'):
        found[path] = owner.get(path).json()
    return found


# ---- callers without a project -----------------------------------------------

@pytest.mark.parametrize('face', FACES)
def test_callers_without_a_project_cannot_access_project_resources(things, owner, nowhere, face):
    before = everything(owner, things)
    assert before['/servers/detail']['servers'] and 'canary' in str(before)
    wrong = {}
    for row in FACES[face]():
        path = path_of(face, row[2], things, MISSING)
        for who, caller in long_runs.turn(row[0], nowhere.items(), SHARE):
            answer = ask(caller, row, path)
            refused = answer.status_code == 403 or row[-1] and answer.status_code < 500
            if not refused or 'canary' in text_of(answer, row):
                wrong[row[0], who] = answer.status_code, text_of(answer, row)[:150]
    assert not wrong, json.dumps({str(key): value for key, value in wrong.items()}, indent=1)
    assert everything(owner, things) == before


def test_the_refusal_says_why(things, nowhere):
    for who, words in (('domain admin', 'a domain'), ('system admin', 'the system'), ('unscoped', 'nothing')):
        for path, read in (('/servers', lambda body: body['forbidden']['message']),
                           ('/network/v2.0/ports', lambda body: body['NeutronError']['message']),
                           ('/volume/v3/volumes', lambda body: body['forbidden']['message']),
                           ('/image/v2/images', lambda body: body['message'])):
            answer = nowhere[who].get(path)
            assert answer.status_code == 403 and read(answer.json()) == (
                f'This needs a token that is scoped to a project. Yours is scoped to {words}.'), (who, path)


def test_public_resources_are_readable_without_a_project(things, identity, nowhere):
    """Versions, extensions and public flavors; private ones, and what flavors say besides, are not everybody's."""
    for who, caller in nowhere.items():
        for path in ('/flavors', '/flavors/detail', '/flavors/detail?is_public=none', '/flavors?is_public=false'):
            answer = caller.get(path)
            assert answer.status_code == 200 and 'm1.tiny' in answer.text, (who, path, answer.text)
            assert 'canary' not in answer.text, (who, path)
        assert caller.get('/flavors/1').status_code == 200
        assert caller.get('/flavors/private').status_code == 404
        for path in ('/extensions', '/compute/v2.1/', '/compute/', '/image/v2/schemas/image',
                     '/network/v2.0/extensions', '/network/v2.0/', '/identity/v3'):
            assert caller.get(path).status_code == 200, (who, path)
    assert 'canary-flavor' in identity.admin.get('/flavors?is_public=none').text


@pytest.mark.parametrize('project', ['{project}', 'None', 'null', '', '%00', '*', 'all projects'])
def test_a_project_in_the_path_is_none_of_theirs(things, nowhere, project):
    for who, caller in nowhere.items():
        for path in ('/compute/v2.1/{}/servers', '/compute/v2.1/{}/servers/detail?all_tenants=1',
                     '/volume/v3/{}/volumes', '/network/v2.0/quotas/{}', '/compute/v3.0/{}/groups',
                     '/compute/v2.1/os-quota-sets/{}'):
            answer = caller.get(path.format(project.format(**things)))
            assert answer.status_code in (400, 403, 404) and 'canary' not in answer.text, (who, path, answer.text)


# ---- callers of another project ----------------------------------------------

def test_every_part_of_a_path_is_known():
    """Somebody has said here what it names."""
    for face, rows in FACES.items():
        for row in rows():
            assert kinds(face, row[2]) is not None, row[0]


@pytest.mark.parametrize('face', FACES)
def test_resources_of_another_project_look_nonexistent(things, missing, owner, others, face):
    """Answered as what does not exist, word for word."""
    before, wrong, asked = everything(owner, things), {}, 0
    for row in FACES[face]():
        named = [kind for _place, kind in kinds(face, row[2]) if kind]
        for who, caller in long_runs.turn(row[0], others.items(), SHARE):
            absent = ask(caller, row, path_of(face, row[2], {**missing, **{
                name: things[name] for name in named if name in BELOW}}, MISSING))
            if absent.status_code >= 500 and absent.status_code not in row[5]:
                wrong[row[0], who] = absent.status_code, absent.text[:150]
            if not named:
                continue
            asked += 1
            theirs = ask(caller, row, path_of(face, row[2], things, MISSING))
            shown, hidden = (_without(answer, names) for answer, names in ((theirs, things), (absent, missing)))
            if shown != hidden or 'canary' in shown[1]:
                wrong[row[0], who] = shown, hidden
    assert asked > 5 * len(others) / SHARE
    assert not wrong, json.dumps({str(key): value for key, value in wrong.items()}, indent=1)
    assert everything(owner, things) == before


def _without(answer, names):
    """(status, text) of an answer without the ids that were asked for, and without times."""
    text = answer.text
    for name in sorted((str(value) for name, value in names.items() if name not in BELOW), key=len, reverse=True):
        text = text.replace(name, '…')
    return answer.status_code, re.sub(r'\d{4}-\d\d-\d\dT[\d:.]+Z?|req-[0-9a-f-]{36}', '', text)


def test_no_administrator_gets_an_unexpected_error(identity, things, missing):
    """The compute API is asked as one by test_rbac."""
    wrong = {}
    for face in ('image', 'network', 'volume'):
        for row in FACES[face]():
            answer = ask(identity.admin, row, path_of(face, row[2], missing, MISSING))
            if answer.status_code >= 500:
                wrong[row[0]] = answer.text[:150]
    assert not wrong


# ---- identity ----------------------------------------------------------------

def test_identity_answers_everybody(things, missing, owner, others, nowhere):
    """No unexpected error for anybody; nothing of others for who administers nothing."""
    before = owner.get(f'/identity/v3/projects/{things["project"]}').json()
    wrong = {}
    for row in identity_handlers.ROUTES:
        if row.public:
            continue                     # logins and changes of passwords: their limits would refuse others
        body = samples.sample(row.body.schema()) if row.body else None
        for who, caller in long_runs.turn(f'{row.method} {row.path}', {**others, **nowhere}.items(), SHARE):
            # by the documented defaults, readers and managers of the domain and the system have rights on all projects
            trusted = {'admin', 'service', 'domain', 'system'} & set(who.split())
            named = missing if trusted else things
            path = row.path
            for part, name in (('{project_id}', 'project'), ('{user_id}', 'user')):
                path = path.replace(part, named[name])
            path = '/identity' + re.sub(r'\{[a-z_]+\}', MISSING, path.replace('{domain_id}', 'default'))
            if row.method == 'DELETE' and path.endswith('/auth/tokens'):
                continue
            answer = caller.request(row.method, path, body)
            done = not trusted and '{user_id}' in row.path and answer.status_code < 400
            if answer.status_code >= 500 or done or not trusted and 'canary' in answer.text:
                wrong[f'{row.method} {row.path}', who] = answer.status_code, answer.text[:150]
    assert not wrong
    assert owner.get(f'/identity/v3/projects/{things["project"]}').json() == before


def test_devices_of_others_are_not_there(owner, identity, others, nowhere):
    """The secrets of one-time codes: nobody but their user, and an administrator, sees or changes them."""
    blob = 'CANARY' + 'A' * 26
    made = owner.post('/identity/v3/credentials', {'credential': {
        'type': 'totp', 'user_id': owner.user_id, 'blob': blob}}).json()['credential']
    path, wrong = f'/identity/v3/credentials/{made["id"]}', {}
    bodies = {'GET': None, 'PATCH': {'credential': {'blob': 'A' * 32}}, 'DELETE': None}
    for who, caller in {**others, **nowhere}.items():
        if 'admin' in who.split():
            continue
        refused = 403 if who == 'credential' else 404
        for method, body in bodies.items():
            answer = caller.request(method, path, body)
            absent = caller.request(method, f'/identity/v3/credentials/{MISSING}', body)
            same = answer.text == absent.text.replace(MISSING, made['id'])
            if not same or {answer.status_code, absent.status_code} != {refused}:
                wrong[method, who] = answer.status_code, answer.text
        for query in ('', f'?user_id={owner.user_id}', '?type=totp', '?user_id='):
            answer = caller.get('/identity/v3/credentials' + query)
            if blob in answer.text or answer.status_code not in (200, 403):
                wrong[query, who] = answer.status_code, answer.text
        answer = caller.post('/identity/v3/credentials', {'credential': {
            'type': 'totp', 'user_id': owner.user_id, 'blob': 'A' * 32}})
        if answer.status_code != 403:
            wrong['POST', who] = answer.status_code, answer.text
    assert not wrong, wrong
    assert owner.get('/identity/v3/credentials').json()['credentials'] == [made]
    assert identity.admin.get(path).json()['credential'] == made
