"""The dashboard's table of actions against nova/actions.py, and what its pages ask for against the rows of the API."""
import pathlib
import re
import runpy

import pytest

from nova import actions
from nova import policies
from nova.api import app as api
from nova.api.dashboard import app
from nova.identity.rest import handlers as identity
from nova.image.rest import handlers as image
from nova.network.rest import app as network
from nova.volume.rest import handlers as volume

GENERATOR = pathlib.Path(__file__).resolve().parents[3] / 'tools' / 'dashboard_states.py'

# Actions that another part of the page has than the table of actions: what hangs on a server.
ELSEWHERE = {'attach_interface', 'detach_interface', 'attach_volume', 'detach_volume', 'metadata', 'softDelete'}
# What the page does not offer, and why.
LEFT_OUT = {
    'addFixedIp': 'an interface is attached instead', 'removeFixedIp': 'an interface is detached instead',
    'swap_volume': 'block storage asks for it when it moves a volume', 'attach_share': 'there is no page of shares',
    'detach_share': 'there is no page of shares',
}


def sources():
    return {path.relative_to(app.STATIC).as_posix(): path.read_text() for path in app.STATIC.rglob('*.js')}


@pytest.mark.skipif(not GENERATOR.exists(), reason='an installed nova has no tools')
def test_states_are_those_of_the_actions():
    states = runpy.run_path(str(GENERATOR))
    assert states['FILE'].read_text() == states['render'](), 'run: python3 tools/dashboard_states.py write'


def test_every_action_is_offered_or_left_out_with_a_reason():
    table = sources()['data/server_actions.js']
    named = set(re.findall(r"action: '([\w-]+)'", table))
    assert named <= set(actions.ACTIONS)
    assert set(actions.ACTIONS) - named == ELSEWHERE | set(LEFT_OUT)


def test_bodies_of_actions_are_operations():
    operations = {row.action for row in api.all_routes() if row.action}
    sent = set(re.findall(r"body: \([^)]*\) => \(\{\s*'?([\w-]+)'?:", sources()['data/server_actions.js']))
    assert len(sent) > 20 and sent <= operations


def test_paths_that_are_asked_for_are_routes():
    paths = {tuple(row.path.strip('/').split('/')) for row in api.all_routes()}
    asked = set()
    for text in sources().values():
        asked.update(re.findall(r"call\(\s*'compute',\s*[`']([^`'?]+)[`']", text))
        asked.update(re.findall(r"service: 'compute',\s*path: '([^']+)'", text))
    assert len(asked) > 20
    for path in asked:
        parts = re.sub(r'\$\{[^}]*\}', '{}', path).strip('/').split('/')
        assert any(_serves(row, parts) for row in paths), path


def _serves(row, parts):
    return len(row) == len(parts) and all(
        known == part or known.startswith('{') for known, part in zip(row, parts, strict=True))


def test_rules_of_actions_guard_an_operation():
    """Each name is the rule of one API alone, because the page asks for a rule by its name."""
    guards = [rule for service in policies.SERVICES for rule in service.guards]
    named = {(name, rule) for name, text in sources().items() for rule in re.findall(r"\brule: '([^']+)'", text)}
    named |= {(name, rule) for name, text in sources().items() for rule in re.findall(r"\bmay\('([^']+)'\)", text)}
    assert len(named) > 80
    assert [(name, rule) for name, rule in sorted(named) if guards.count(rule) != 1] == []


def test_actions_that_send_a_request_have_a_rule_and_a_message():
    """Without a rule an action is offered to readers."""
    wrong, seen = [], 0
    for name, text in sources().items():
        if not name.startswith(('data/resources/', 'data/ports')):
            continue
        for action in re.findall(r"^( *)(?:create: )?\{\n\1  name: '([\w-]+)',\n(.*?)^\1\}", text, re.M | re.S):
            body = action[2]
            seen += 1
            if re.search(r'^ *(request|perform)[:(]', body, re.M) and not ("rule: '" in body and "done: '" in body):
                wrong.append((name, action[1]))
    assert wrong == [] and seen > 60


API_ROUTES = {'network': network.ROUTES, 'volume': volume.ROUTES, 'image': image.ROUTES, 'identity': identity.ROUTES}


def test_requests_to_the_other_apis_are_routes():
    asked = {found for text in sources().values() for found in re.findall(
        r"service: '(network|volume|image|identity)',\s*method: '(\w+)',\s*path: [`']([^`']+)[`']", text)}
    assert len(asked) > 30
    for service, method, path in asked:
        parts = re.sub(r'\$\{[^}]*\}', '{}', path).strip('/').split('/')
        known = [(row.method, row.path.removeprefix('/v2/').removeprefix('/v3/').strip('/').split('/'))
                 for row in API_ROUTES[service]]
        assert any(row == method and _fits(places, parts) for row, places in known), (service, method, path)


def _fits(places, parts):
    """Whether a path is one of a route; an expression of JavaScript may be any part, or the end of one."""
    return len(places) == len(parts) and all(
        place == part or place.startswith('{') or '{}' in part for place, part in zip(places, parts, strict=True))


def test_the_table_of_pages_names_resources_that_exist():
    found = sources()
    for name in re.findall(r"resource: '(\w+)'", found['data/navigation.js']):
        assert f'data/resources/{name}.js' in found
        assert f"'{name}'" in found['data/resources.js']
    for path in re.findall(r"import\('\.\./(pages/\w+\.js)'\)", found['data/navigation.js']):
        assert path in found


def test_imports_point_downwards():
    """The frame alone knows the table of pages, which loads them when they are shown."""
    rooms = ['vendor', 'core', 'parts', 'data', 'pages', 'main.js']
    wrong = []
    for name, text in sources().items():
        for path in re.findall(r"^import .* from '([^']+)'|^\} from '([^']+)'", text, re.M):
            target = (app.STATIC / name).parent.joinpath(''.join(path)).resolve().relative_to(app.STATIC)
            if rooms.index(target.parts[0]) > rooms.index(name.split('/')[0]):
                wrong.append((name, target.as_posix()))
    assert wrong == [('parts/shell.js', 'data/navigation.js')]
