"""A process in two parts: what the ordinary one can do and have done, in a process of its own with real rights."""
import json
import os
import shutil
import subprocess
import sys
import textwrap

import pytest

PROLOGUE = '''
import json, os, sys, time
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
    if name == 'guest':
        raise exception.VirtError(operation='look', reason='there is none')
    if name == 'large':
        return 'x' * (65 << 20)
    if name.startswith('slow'):
        time.sleep(1)
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
def test_unlisted_privileged_operations_are_refused(model):
    found, errors = run('''
        print(json.dumps([refused('make', name='a'), refused('make', name='../a'), refused('make', name=['a']),
                          refused('make'), refused('make', name='a', more=1), refused('_serve'), refused('__class__'),
                          refused('make', name='broken'), refused('make', name='bug'), refused('make', name='large'),
                          refused('make', name='x' * (65 << 20)), refused('make', name='b')]))
    ''', model)
    assert found[0] == ['done', 'a'] and found[-1] == ['done', 'b']
    assert all('refuses it' in text for text in found[1:7]), found
    assert found[7] == 'the host says no' and found[8] == 'AttributeError in the privileged part'
    assert all('over 67108864 bytes' in text for text in found[9:11])
    assert 'AttributeError: secret' in errors


def test_an_error_has_the_facts_of_the_one_that_was_raised():
    found, _errors = run('''
        failure = lambda **facts: exception.VirtError(**{'operation': 'do it', **facts})
        helper = privileges.Helper({'make': make}, failure)
        helper.fork()
        said = []
        for name in ('guest', '../a'):
            try:
                helper.call('make', name=name)
            except exception.VirtError as error:
                said.append(error.message)
        print(json.dumps(said))
    ''')
    assert found[0] == 'The hypervisor could not look: there is none' and 'could not do it: the privileged' in found[1]


@pytest.mark.parametrize('model', ['native', 'eventlet'])
def test_operations_run_at_once(model):
    """A copy of a disk takes minutes; other guests do not wait for it."""
    found, _errors = run('''
        import threading
        helper = privileges.Helper({'make': make}, callers=8)
        helper.fork()
        threads = [threading.Thread(target=helper.call, args=('make',), kwargs={'name': f'slow{number}'})
                   for number in range(8)]
        begun = time.monotonic()
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(json.dumps(time.monotonic() - begun))
    ''', model)
    assert 1 <= found < 7.5              # one after the other: 8


def test_a_stop_lets_what_runs_come_to_its_end():
    found, _errors = run('''
        import threading
        helper, done = privileges.Helper({'make': make}, callers=2), []
        helper.fork()
        thread = threading.Thread(target=lambda: done.append(helper.call('make', name='slow')))
        thread.start()
        while helper._links.qsize() == 2:        # the call has not begun
            time.sleep(0.01)
        helper.stop()
        thread.join()
        print(json.dumps([done, refused('make', name='a'), os.waitpid(helper.pid, 0)[1]]))
    ''')
    assert found == [['slow'], 'its privileged part has ended', 0]


@pytest.mark.parametrize('model', ['native', 'eventlet'])
def test_end_of_the_privileged_process_is_noticed(model):
    found, _errors = run('''
        before = helper.alive()
        print(json.dumps([before, refused('make', name='die'), refused('who'), helper.alive(), helper.alive()]))
    ''', model)
    assert found[0]['privileged part'][0] is True
    assert found[1] == found[2] == 'its privileged part has ended'
    assert found[3] == found[4] == {'privileged part': [False, {'error': 'its privileged part has ended'}]}


@pytest.mark.parametrize('death', ['helper.stop()', 'os.kill(os.getpid(), 9)'])
def test_privileged_process_ends_with_its_parent(death):
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


def test_an_interrupted_call_leaves_its_answer_to_nobody():
    """The next caller got it in the place of its own."""
    found, _errors = run('''
        import signal
        class Interrupt(BaseException):
            pass
        def interrupt(*_):
            raise Interrupt()
        def interrupts():
            os.kill(os.getppid(), signal.SIGALRM)
            time.sleep(0.5)
        signal.signal(signal.SIGALRM, interrupt)
        first, helper = helper, privileges.Helper({'make': make, 'interrupts': interrupts})
        helper.fork([first])
        try:
            helper.call('interrupts')
        except Interrupt:
            answers = ['interrupted']
        time.sleep(0.7)
        answers += [refused('make', name='a'), refused('make', name='b')]
        print(json.dumps([answers, helper.alive()['privileged part'][0]]))''')
    ended = 'its privileged part has ended'
    assert found[0][0] == 'interrupted' and all(ended in each for each in found[0][1:]) and found[1] is False


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


@pytest.mark.skipif(os.geteuid() != 0, reason='needs root')
def test_a_privileged_part_has_the_capabilities_that_it_names(tmp_path):
    found, _errors = run('''
        import subprocess
        def status():
            return subprocess.run(['cat', '/proc/self/status'], capture_output=True, text=True).stdout
        def refused_chown(path):
            try:
                os.chown(path, 1, 1)
            except PermissionError:
                return True
        first = privileges.Helper({'status': status, 'chown': refused_chown},
                                  capabilities=lambda: (privileges.KILL, privileges.SYS_ADMIN))
        first.fork()
        second = privileges.Helper({'alive': lambda: first.call('status')})
        second.fork([first])
        try:
            reached = second.call('alive')
        except exception.NetworkPlumbingError as error:
            reached = error.kwargs['reason']
        print(json.dumps([first.call('status'), first.call('chown', path=sys.executable), reached]))
    ''')
    status = dict(line.split(':\t') for line in found[0].splitlines() if ':\t' in line)
    mask, sets = 1 << 5 | 1 << 21, ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb')
    assert all(int(status[name], 16) & ~mask == 0 for name in sets), status
    assert int(status['CapEff'], 16) and status['NoNewPrivs'] == '1' and found[1] is True
    assert found[2] == 'its privileged part has ended'              # one does not reach the other


@pytest.mark.skipif(os.geteuid() != 0, reason='needs root')
def test_a_low_port_is_all_that_is_kept():
    found, _errors = run('''
        import pwd, subprocess
        privileges.become(pwd.getpwnam('nobody'), capabilities=[privileges.NET_BIND_SERVICE])
        texts = [open('/proc/self/status').read(),
                 subprocess.run(['cat', '/proc/self/status'], capture_output=True, text=True).stdout]
        print(json.dumps(texts))
    ''')
    ours, theirs = (dict(line.split(':\t') for line in text.splitlines() if ':\t' in line) for text in found)
    assert ours['Uid'].split() == ['65534'] * 4
    assert [int(ours[name], 16) for name in ('CapPrm', 'CapEff', 'CapInh', 'CapAmb')] == [1 << 10, 1 << 10, 0, 0]
    assert [int(theirs[name], 16) for name in ('CapPrm', 'CapEff')] == [0, 0]       # a program of its


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which('setpriv'), reason='needs root, and setpriv of util-linux')
def test_nothing_is_kept_of_what_systemd_lets_a_process_inherit():
    """Version 257 of systemd makes the bounding set inheritable; it stayed so after the change of the user."""
    code = ('import json, pwd; from nova.runtime import privileges; privileges.become(pwd.getpwnam("nobody")); '
            'print(json.dumps(open("/proc/self/status").read()))')
    done = subprocess.run(['setpriv', '--inh-caps=+kill,+net_admin', sys.executable, '-c', code], check=True,
                          capture_output=True, text=True)
    status = dict(line.split(':\t') for line in json.loads(done.stdout).splitlines() if ':\t' in line)
    assert [int(status[name], 16) for name in ('CapPrm', 'CapEff', 'CapInh', 'CapAmb')] == [0, 0, 0, 0]


@pytest.mark.skipif(os.geteuid() != 0, reason='needs root')
def test_try_as_reports_what_another_user_cannot_do():
    found, _errors = run('''
        import pwd
        nobody = pwd.getpwnam('nobody')
        def fails():
            open('/etc/shadow')
        print(json.dumps([privileges.try_as(nobody, (), lambda: f'I am {os.geteuid()}.'),
                          privileges.try_as(nobody, (), lambda: None), privileges.try_as(nobody, (), fails),
                          os.geteuid()]))
    ''')
    assert found[0] == 'I am 65534.' and found[1] == '' and 'PermissionError' in found[2] and found[3] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason='needs root')
def test_a_directory_is_handed_over_with_what_is_in_it(tmp_path):
    outside, kept, foreign = tmp_path / 'outside', tmp_path / 'kept', tmp_path / 'kept' / 'below' / 'foreign'
    (kept / 'below').mkdir(parents=True)
    outside.mkdir()
    for path in (outside / 'file', kept / 'file', kept / 'below' / 'file', foreign):
        path.write_text('x')
    os.chown(foreign, 1, 1)
    (kept / 'link').symlink_to(outside / 'file')
    (kept / 'directory').symlink_to(outside)
    os.link(outside / 'file', kept / 'twice')
    os.mkfifo(kept / 'pipe')
    run(f'''
        import pwd
        privileges.hand_over({str(kept)!r}, pwd.getpwnam('nobody'))
        privileges.hand_over({str(kept / 'directory')!r}, pwd.getpwnam('nobody'))
        print(json.dumps(None))
    ''')
    assert {path.stat().st_uid for path in (kept, kept / 'below', kept / 'file', kept / 'below' / 'file')} == {65534}
    assert {path.stat().st_uid for path in (outside, outside / 'file', kept / 'pipe')} == {0}
    assert foreign.stat().st_uid == 1
