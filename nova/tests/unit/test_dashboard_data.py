"""Requests and conditions of the dashboard's tables, in Node."""
import base64
import json
import pathlib
import shutil
import subprocess

import pytest

from nova.api.dashboard import app

pytestmark = pytest.mark.skipif(shutil.which('node') is None, reason='node is not installed')


# A session, and services that answer what ANSWERS has for a request, 404 without; ``sent`` has the requests.
BROWSER = '''
const services = Object.fromEntries(['compute', 'image', 'network'].map(name => [name, `http://cloud/${name}`]));
const session = {
  token: 't', expires: '9999-01-01', user: {id: 'u'}, project: {id: 'p'}, roles: [], endpoints: services,
};
const sent = [];
Object.assign(globalThis, {
  document: {baseURI: 'http://cloud/dashboard/'},
  sessionStorage: {getItem: () => JSON.stringify(session), removeItem: () => null},
  fetch: async (url, {method, body}) => {
    const [request] = sent.slice(sent.push(`${method} ${new URL(url).pathname}`) - 1);
    if (method === 'PATCH') sent[sent.length - 1] += ` ${JSON.parse(body)[0].value}`;
    return new Response(JSON.stringify(ANSWERS[request] ?? {}), {status: request in ANSWERS ? 200 : 404});
  },
});
'''


def run(names: str, module: str, program: str, answers: dict[str, object] | None = None) -> object:
    """What a program returns that imports names of a module.

    :param answers: {method and path: document}; other requests are refused
    """
    url = json.dumps(pathlib.Path(app.STATIC, module).as_uri())
    source = (f'const ANSWERS = {json.dumps(answers or {})}; {BROWSER} const {names} = await import({url});'
              f'const main = async () => {{ {program} }}; console.log(JSON.stringify(await main()))')
    done = subprocess.run(['node', '--no-warnings', '--input-type=module', '-e', source], capture_output=True,
                          text=True, timeout=60, check=True)
    found: object = json.loads(done.stdout)
    return found


def test_consoles_are_offered_while_the_guest_runs() -> None:
    states = [('active', None), ('rescued', None), ('resized', None), ('paused', None), ('error', None),
              ('active', 'rebooting'), ('active', 'migrating'), ('rescued', 'deleting'), ('stopped', None),
              ('suspended', None), ('shelved_offloaded', None)]
    servers = [{'id': 's', 'OS-EXT-STS:vm_state': vm, 'OS-EXT-STS:task_state': task} for vm, task in states]
    assert run('{SERVER_ACTIONS}', 'data/server_actions.js', f'''
        const action = SERVER_ACTIONS.find(one => one.name === 'console');
        return {json.dumps(servers)}.map(action.when);''') == 6 * [True] + 5 * [False]


def test_each_console_is_asked_for_with_its_protocol() -> None:
    assert run('{CONSOLES, consoleRequest}', 'data/server_actions.js', '''
        return CONSOLES.map(one => consoleRequest({id: 's'}, one.value).body.remote_console);''') == [
            {'type': 'novnc', 'protocol': 'vnc'}, {'type': 'spice-html5', 'protocol': 'spice'},
            {'type': 'serial', 'protocol': 'serial'}]


NETWORK = '/network/v2.0'
# (module, action, row, values, answers, requests): one request of several is refused
HALVES: list[tuple[str, str, dict[str, object], dict[str, object], dict[str, object], list[str]]] = [
    ('routers', 'create-router', {}, {'name': 'r', 'network': 'n', 'subnets': ['s1', 's2']},
     {f'POST {NETWORK}/routers': {'router': {'id': 'r'}}},
     [f'POST {NETWORK}/routers', f'PUT {NETWORK}/routers/r/add_router_interface', f'DELETE {NETWORK}/routers/r']),
    ('networks', 'create-network', {}, {'name': 'n', 'subnet': True, 'cidr': '192.0.2.0/24', 'router': 'new'},
     {f'POST {NETWORK}/networks': {'network': {'id': 'n'}}, f'POST {NETWORK}/subnets': {'subnet': {'id': 's'}},
      f'POST {NETWORK}/routers': {'router': {'id': 'r'}}},
     [f'POST {NETWORK}/networks', f'POST {NETWORK}/subnets', f'POST {NETWORK}/routers',
      f'PUT {NETWORK}/routers/r/add_router_interface', f'DELETE {NETWORK}/routers/r', f'DELETE {NETWORK}/networks/n']),
    ('users', 'make-user', {}, {'name': 'u', 'password': 'x', 'project': 'p'},
     {'GET /identity/v3/roles': {'roles': [{'id': 'm', 'name': 'member'}]},
      'POST /identity/v3/users': {'user': {'id': 'u'}}},
     ['GET /identity/v3/roles', 'POST /identity/v3/users', 'PUT /identity/v3/projects/p/users/u/roles/m',
      'DELETE /identity/v3/users/u']),
    ('users', 'make-user', {}, {'name': 'u', 'password': 'x', 'project': 'p'},
     {'GET /identity/v3/roles': {'roles': []}}, ['GET /identity/v3/roles']),
    ('server_groups', 'make-group', {},
     {'name': 'g', 'policies': ['anti-affinity', 'network-proximity'], 'most': 2},
     {'POST /v3.0/p/groups': {'group': {'id': 'g'}}},
     ['POST /v3.0/p/groups', 'PUT /compute/os-server-groups/g', 'DELETE /compute/os-server-groups/g']),
    ('images', 'share', {'id': 'i', 'visibility': 'private'}, {'member': 'other'},
     {'PATCH /image/v2/images/i': {}},
     ['PATCH /image/v2/images/i shared', 'POST /image/v2/images/i/members', 'PATCH /image/v2/images/i private'])]


@pytest.mark.parametrize('half', HALVES, ids=lambda half: half[1])
def test_a_refused_request_leaves_nothing_of_those_before_it(
        half: tuple[str, str, dict[str, object], dict[str, object], dict[str, object], list[str]]) -> None:
    module, action, row, values, answers, requests = half
    found = run('{default: resource}', f'data/resources/{module}.js', f'''
        const action = [resource.create, ...resource.actions].find(one => one?.name === {json.dumps(action)});
        const why = await action.perform({json.dumps(row)}, {json.dumps(values)}, () => null).then(
          () => '', error => error.message);
        return [why !== '', sent];''', answers)
    assert found == [True, requests]


def test_interfaces_are_removed_before_their_router() -> None:
    """The third of three subnets is refused."""
    found = run('{default: resource}', 'data/resources/routers.js', '''
        const real = fetch;
        let left = 2;
        globalThis.fetch = (url, asked) => {
          if (url.endsWith('/add_router_interface') && !left--) delete ANSWERS[`PUT ${new URL(url).pathname}`];
          return real(url, asked);
        };
        await resource.create.perform({}, {name: 'r', subnets: ['s1', 's2', 's3']}).catch(() => null);
        return sent.slice(4);''', {f'POST {NETWORK}/routers': {'router': {'id': 'r'}},
                                   f'PUT {NETWORK}/routers/r/add_router_interface': {}})
    assert found == 2 * [f'PUT {NETWORK}/routers/r/remove_router_interface'] + [f'DELETE {NETWORK}/routers/r']


VALUES = {'name': 's', 'flavor': 'f', 'count': 1, 'source': 'image', 'image': 'i', 'networks': [], 'groups': []}


def test_lines_of_metadata_are_pairs() -> None:
    values = VALUES | {'metadata': 'role = web\n\nurl=http://x/?a=b\nempty='}
    assert run('{body}', 'data/server_form.js', f'return body({json.dumps(values)}).server.metadata') == {
        'role': 'web', 'url': 'http://x/?a=b', 'empty': ''}


@pytest.mark.parametrize('line', ['role', '=web', ' = web'])
def test_a_line_without_a_key_or_a_value_is_refused(line: str) -> None:
    metadata, category = VALUES | {'metadata': f'a=b\n{line}'}, {'requirements': line}
    for name, program in (('server_form', f"const {{body}} = found; body({json.dumps(metadata)})"), (
            'resources/categories', f"found.default.create.request({{}}, {json.dumps(category)})")):
        said = run('found', f'data/{name}.js', f"try {{ {program} }} catch (error) {{ return error.message }}")
        assert said == f'The line "{line.strip()}" is not of the form key=value.'


def test_command_and_terraform_describe_the_server_of_the_form() -> None:
    values = VALUES | {'count': 3, 'tags': '', 'metadata': 'role = web\nhalf\nurl=${x}', 'source': 'new', 'size': 5,
                       'ends': True}
    found = run('{command, hcl}', 'data/server_form.js', f'''
        const values = {json.dumps(values)};
        return [command(values), hcl(values), command({{...values, source: 'volume', volume: 'v'}}),
                hcl({{...values, metadata: ''}})];''')
    assert isinstance(found, list)
    command, hcl, of_volume, plain = found
    assert '--min 3 --max 3' in command and '--boot-from-volume 5 --delete-on-termination' in command
    assert '--block-device uuid=v,source_type=volume,boot_index=0,delete_on_termination=true' in of_volume
    assert '--volume' not in of_volume and '--delete-on-termination' not in of_volume
    assert '  metadata = {"role" = "web", "url" = "$${x}"}\n' in hcl and 'metadata' not in plain


def test_cells_of_csv_are_quoted() -> None:
    text = run('{csv}', 'core/csv.js', r'''return csv([['a', 'b,c'], ['d\re', 'f"g'], ['=1', -2], [null, 'h\ni']])''')
    assert text == 'a,"b,c"\r\n"d\re","f""g"\r\n\'=1,-2\r\n,"h\ni"'


def test_long_user_data_are_encoded() -> None:
    values = VALUES | {'user_data': '#cloud-config ä\n'}
    text = run('{body}', 'data/server_form.js', f'''
        const values = {json.dumps(values)};
        return body({{...values, user_data: values.user_data.repeat(20_000)}}).server.user_data;''')
    assert base64.b64decode(str(text)).decode() == '#cloud-config ä\n' * 20_000
