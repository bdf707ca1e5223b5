"""Requests and conditions of the dashboard's tables, in Node."""
import json
import pathlib
import shutil
import subprocess

import pytest

from nova.api.dashboard import app

pytestmark = pytest.mark.skipif(shutil.which('node') is None, reason='node is not installed')


def run(names: str, module: str, program: str) -> object:
    """What a program returns that imports names of a module."""
    source = (f'import {names} from {json.dumps(pathlib.Path(app.STATIC, module).as_uri())};'
              f'const main = async () => {{ {program} }};'
              'console.log(JSON.stringify(await main()))')
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
