"""A process in two parts: what the ordinary one can do and have done, in a process of its own with real rights."""
import json
import os
import subprocess
import sys
import textwrap

import pytest

PROLOGUE = '''
import json, os, sys
from nova.runtime import concurrency
concurrency.setup()
from nova import exception
from nova.runtime import privileges

def who(): return [os.geteuid(), os.getpid()]
def make(name):
    if not isinstance(name, str) or not name.isalnum():
        raise ValueError('the name is no name')
    if name == 'broken':
        raise exception.NetworkPlumbingError(reason='the host says no')
    if name == 'bug':
        raise AttributeError('secret')
    if name == 'die':
        os._exit(3)
    return name

helper = privileges.Helper({'who': who, 'make': make})
helper.fork()

def refused(operation, **arguments):
    try:
        return ['done', helper.call(operation, **arguments)]
    except exception.NetworkPlumbingError as error:
        return error.kwargs['reason']
'''


def run(code, model='native'):
    """What a script prints as JSON."""
    done = subprocess.run([sys.executable, '-W', 'ignore', '-c', PROLOGUE + textwrap.dedent(code)],
                          capture_output=True, text=True, timeout=120, env={**os.environ, 'NOVA_THREAD_MODEL': model})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize('model', ['native', 'eventlet'])
def test_only_what_is_listed_is_done(model):
    found, errors = run('''
        print(json.dumps([refused('make', name='a'), refused('make', name='../a'), refused('make', name=['a']),
                          refused('make'), refused('make', name='a', more=1), refused('_serve'), refused('__class__'),
                          refused('make', name='broken'), refused('make', name='bug'), refused('make', name='b')]))
    ''', model)
    assert found[0] == ['done', 'a'] and found[-1] == ['done', 'b']
    assert all('refuses it' in text for text in found[1:7]), found
    assert found[7] == 'the host says no' and found[8] == 'AttributeError in the privileged part'
    assert 'AttributeError: secret' in errors


@pytest.mark.parametrize('model', ['native', 'eventlet'])
def test_its_end_is_noticed(model):
    found, _errors = run('''
        before = helper.alive()
        print(json.dumps([before, refused('make', name='die'), refused('who'), helper.alive(), helper.alive()]))
    ''', model)
    assert found[0]['privileged part'][0] is True
    assert found[1] == found[2] == 'its privileged part has ended'
    assert found[3] == found[4] == {'privileged part': [False, {'error': 'its privileged part has ended'}]}


@pytest.mark.parametrize('death', ['helper.stop()', 'os.kill(os.getpid(), 9)'])
def test_it_ends_with_the_ordinary_part(death):
    code = PROLOGUE + f'\nprint(helper.call("who")[1], flush=True)\n{death}\n' 'import time; time.sleep(60)'
    with subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE, text=True) as process:
        pid = int(process.stdout.readline())
        assert process.stdout.read(1) == '' if 'kill' in death else True         # both ends of the pipe are closed
        if 'stop' in death:
            for _ in range(100):
                with open(f'/proc/{pid}/stat') as file:
                    state = file.read().rpartition(')')[2].split()[0]
                if state == 'Z':
                    break
                subprocess.run(['sleep', '0.1'])
            assert state == 'Z'
        process.kill()


def test_parallel_callers_get_their_own_answers():
    found, _errors = run('''
        import threading
        wrong = []
        def ask(number):
            for turn in range(50):
                name = f'n{number}t{turn}'
                if helper.call('make', name=name) != name:
                    wrong.append(name)
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(json.dumps(wrong))
    ''')
    assert found == []


@pytest.mark.skipif(os.geteuid() != 0, reason='needs root')
def test_the_ordinary_part_has_no_right_left(tmp_path):
    mine, link, other = tmp_path / 'mine', tmp_path / 'link', tmp_path / 'other'
    for path in (mine, other):
        path.write_text('x')
        path.chmod(0o600)
    link.symlink_to(other)
    twice = tmp_path / 'twice'
    os.link(other, twice)
    found, _errors = run(f'''
        import pwd
        nobody = pwd.getpwnam('nobody')
        privileges.become(nobody, {[str(mine), str(link), str(twice), str(tmp_path / 'absent')]!r}, ['no-such-group'])
        status = dict(line.split(':\\t') for line in open('/proc/self/status').read().splitlines() if ':\\t' in line)
        def fails(function, *arguments):
            try:
                function(*arguments)
                return False
            except OSError:
                return True
        print(json.dumps({{'uid': status['Uid'].split(), 'gid': status['Gid'].split(), 'groups': os.getgroups(),
                           'caps': [status[name] for name in ('CapPrm', 'CapEff', 'CapAmb')],
                           'nnp': status['NoNewPrivs'], 'helper': helper.call('who')[0],
                           'fails': [fails(os.setuid, 0), fails(open, '/etc/shadow'), fails(os.kill, 1, 0),
                                     fails(os.kill, helper.pid, 9)]}}))
    ''')
    assert found['uid'] == found['gid'] == ['65534'] * 4 and found['groups'] in ([65534], [])
    assert {int(text, 16) for text in found['caps']} == {0} and found['nnp'] == '1'
    assert found['helper'] == 0 and found['fails'] == [True] * 4
    assert mine.stat().st_uid == 65534
    assert other.stat().st_uid == 0 and twice.stat().st_uid == 0      # what a name only leads to is not given away
