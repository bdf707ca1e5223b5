"""Hooks of a package that is really installed, around a real boot, resize and delete; and the rules of add_hook."""
import logging
import os
import pathlib
import subprocess
import sys

import pytest

from nova import exception
from nova import hooks

PLUGIN = '''
import os

from nova import exception


def note(*words):
    with open(os.environ['HOOK_NOTES'], 'a') as file:
        file.write(' '.join(words) + '\\n')


def _kinds(args):
    return ','.join(type(arg).__name__ for arg in args)


class Api:
    def pre(self, *args, **kwargs):
        note('api pre', _kinds(args))
        if args[0].body and args[0].body['server']['name'] == 'refused':
            raise exception.FatalHookException('Not on my watch.')
        raise ValueError('a hook that fails changes nothing')

    def post(self, rv, *args, **kwargs):
        note('api post', type(rv).__name__, _kinds(args))


class Compute:
    def pre(self, *args, **kwargs):
        note('build pre', args[2].display_name)
        if args[2].display_name == 'vetoed':
            raise exception.FatalHookException()

    def post(self, rv, *args, **kwargs):
        note('build post', args[2].display_name)


class Other:
    def pre(self, *args, **kwargs):
        note('other pre', _kinds(args))
'''
SETUP = '''
import setuptools
setuptools.setup(name='hook-plugin', version='1', py_modules=['hook_plugin'], entry_points={'nova.hooks': [
    'create_instance = hook_plugin:Api', 'build_instance = hook_plugin:Compute', 'delete_instance = hook_plugin:Other',
    'resize_hook = hook_plugin:Other', 'instance_network_info = hook_plugin:Missing']})
'''
SCRIPT = '''
import sys
from nova.runtime import concurrency
concurrency.setup()
from nova.tests.functional import cloud as clouds
with clouds.running(sys.argv[1], hosts=['host1', 'host2']) as cloud:
    boss = cloud.admin('2.93')
    image = boss.upload_image()
    def boot(name):
        return boss.post('/servers', {'server': {'name': name, 'imageRef': image, 'flavorRef': '42',
                                                 'networks': 'none'}})
    refused = boot('refused')
    assert refused.status_code == 403 and 'Not on my watch' in refused.text, refused.text
    assert boss.get('/servers').json()['servers'] == []
    made = boot('welcome').json()['server']['id']
    boss.wait_for(made)
    vetoed = boot('vetoed').json()['server']['id']
    assert 'fault' in boss.wait_for(vetoed, 'ERROR')
    assert boss.post(f'/servers/{made}/action', {'resize': {'flavorRef': '84'}}).status_code == 202
    boss.wait_for(made, 'VERIFY_RESIZE')
    for server in (made, vetoed):
        assert boss.delete(f'/servers/{server}').status_code == 204
    boss.wait_for(made, 'DELETED')
print('done')
'''


def test_installed_hook_plugin_is_called(tmp_path):
    source, target, notes = tmp_path / 'source', tmp_path / 'target', tmp_path / 'notes'
    source.mkdir()
    (source / 'hook_plugin.py').write_text(PLUGIN)
    (source / 'setup.py').write_text(SETUP)
    subprocess.run([sys.executable, '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-deps',
                    '--no-build-isolation', '--no-index', '--target', target, source], check=True)
    tree = pathlib.Path(__file__).parents[3]
    done = subprocess.run([sys.executable, '-W', 'ignore', '-c', SCRIPT, tmp_path / 'state'], capture_output=True,
                          text=True, timeout=300, env={**os.environ, 'PYTHONPATH': f'{target}:{tree}',
                                                       'HOOK_NOTES': str(notes)})
    assert done.returncode == 0 and done.stdout == 'done\n', done.stderr[-3000:]
    said = notes.read_text().splitlines()
    asked = [line for line in said if line.startswith('api ')]               # the build goes on beside the answer
    assert asked[:3] == ['api pre Request', 'api pre Request', 'api post Response Request']
    assert said.count('build pre welcome') == said.count('build post welcome') == 1
    assert 'build pre vetoed' in said and 'build post vetoed' not in said
    assert 'other pre Resize,RequestContext,Instance,Migration,Task' in said
    assert [line for line in said if line.startswith('other pre Request,str,Action')]


class Noting:
    def __init__(self, notes, name, error=None):
        self.notes, self.name, self.error = notes, name, error

    def pre(self, *args, **kwargs):
        self.notes.append((self.name, 'pre', args, kwargs))
        if self.error:
            raise self.error

    def post(self, rv, *args, **kwargs):
        self.notes.append((self.name, 'post', rv, args, kwargs))


class OnlyPost:
    def post(self, rv, *args):
        raise ValueError('canary')


@pytest.fixture
def plugged(monkeypatch):
    """function(name, *objects) that are the plugins of a name"""
    def plug(name, *objects):
        monkeypatch.setitem(hooks._plugins, name, objects)
    return plug


def add(a, b=1):
    return a + b


def test_hooks_run_before_and_after_in_order(plugged):
    notes = []
    plugged('x', Noting(notes, 'one'), Noting(notes, 'two'))
    hooked = hooks.add_hook('x')(add)
    assert hooked(1, b=2) == 3 and hooked.__name__ == 'add'
    assert notes == [('one', 'pre', (1,), {'b': 2}), ('two', 'pre', (1,), {'b': 2}),
                     ('two', 'post', 3, (1,), {'b': 2}), ('one', 'post', 3, (1,), {'b': 2})]
    del notes[:]
    hooks.add_hook('x', pass_function=True)(add)(1)
    assert notes[0] == ('one', 'pre', (add, 1), {}) and notes[2] == ('two', 'post', add, (2, 1), {})


def test_failing_hook_is_logged_and_only_a_fatal_one_ends_the_call(plugged, caplog):
    notes = []
    plugged('y', Noting(notes, 'one', ValueError('canary')), OnlyPost())
    with caplog.at_level(logging.ERROR):
        assert hooks.add_hook('y')(add)(1) == 2
    assert caplog.text.count('canary') >= 2 and [note[1] for note in notes] == ['pre', 'post']
    plugged('y', Noting(notes, 'one', exception.FatalHookException()), Noting(notes, 'two'))
    with pytest.raises(exception.FatalHookException):
        hooks.add_hook('y')(add)(1)
    assert notes[-1][0] == 'one'


def test_nothing_plugged_in_is_looked_for_once(monkeypatch):
    loads, load = [], hooks._load
    monkeypatch.setattr(hooks, '_load', lambda name: loads.append(name) or load(name))
    hooked = hooks.add_hook('nobody-has-this')(add)
    assert [hooked(1), hooked(2)] == [2, 3] and loads == ['nobody-has-this']
    monkeypatch.delitem(hooks._plugins, 'nobody-has-this')
