"""nova-policy: what it answers, prints and exits with."""
import json
import subprocess
import sys

import pytest

from nova.cmd import policy
from nova.cmd import status
from nova.cmd.manage import main as manage


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """``run(*arguments)`` -> (exit code, what was printed, what was said on stderr); files are of ``run.path``."""
    monkeypatch.chdir(tmp_path)
    conf = tmp_path / 'nova.conf'
    conf.write_text(f'[oslo_policy]\npolicy_file = {tmp_path}/policy.yaml\n')
    (tmp_path / 'policy.yaml').write_text('"os_compute_api:os-services": "role:ops"\n')

    def command(*arguments):
        code = policy.main([*arguments, '--config-file', str(conf)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err
    command.path = tmp_path
    return command


@pytest.mark.parametrize(('arguments', 'code'), [
    (['--roles', 'member', '--api', 'POST /servers'], 0),
    (['--roles', 'reader', '--api', 'POST /servers'], 1),
    (['--roles', 'reader', '--api', 'GET /servers/{id}'], 0),
    (['--roles', 'reader', '--api', 'GET /v2.1/servers/0a1b/'], 0),
    (['--roles', 'reader', '--api', 'GET /servers/{id}', '--target', 'other'], 1),
    (['--roles', 'admin', '--api', 'GET /servers/{id}', '--target', 'other'], 0),
    (['--roles', 'member', '--api', 'POST /servers/{id}/action os-start'], 0),
    (['--roles', 'reader', '--api', 'POST /servers/{id}/action os-start'], 1),
    (['--roles', 'ops', '--api', 'GET /os-services'], 0),
    (['--roles', 'admin', '--api', 'GET /os-services'], 1),
    (['--roles', 'reader', '--user', 'me', '--api', 'DELETE /os-keypairs/{id}'], 0),
    (['--roles', 'reader', '--api', 'os_compute_api:servers:show'], 0),
    (['--roles', 'reader', '--api', 'os_compute_api:servers:show', '--target', 'other/user'], 1),
    (['--service', 'image', '--roles', 'member', '--api', 'DELETE /v2/images/{image_id}'], 0),
    (['--service', 'image', '--roles', 'reader', '--api', 'DELETE /v2/images/{image_id}'], 1),
    (['--service', 'network', '--roles', 'member', '--api', 'POST /networks'], 0),
    (['--service', 'network', '--roles', 'member', '--api', 'create_network:shared'], 1),
    (['--service', 'block storage', '--roles', 'reader', '--api', 'GET /v3/volumes'], 0),
    (['--service', 'block storage', '--roles', 'reader', '--api', 'POST /volumes'], 1),
    (['--service', 'identity', '--roles', 'member', '--api', 'GET /v3/users/{user_id}'], 0),
    (['--service', 'identity', '--roles', 'member', '--api', 'GET /v3/users'], 1),
    (['--service', 'identity', '--roles', 'member', '--api', 'GET /v3/users/{user_id}', '--target', 'p/other'], 1),
    (['--api', 'GET /flavors'], 0), (['--api', 'GET /flavors/detail'], 0), (['--api', 'GET /'], 2),
    (['--api', 'GET /nothing'], 2), (['--api', 'PATCH /servers'], 2), (['--api', 'os_compute_api:nothing'], 2),
    (['--api', 'POST /servers/{id}/action'], 2), (['--token-file', 'missing.json', '--api', 'GET /servers'], 2)])
def test_policy_check_has_exit_codes_for_allowed_and_refused(run, arguments, code):
    got, printed, said = run('check', *arguments)
    assert got == code, printed + said
    assert (len(said.splitlines()) == 1) == (code == 2)
    if code < 2:
        assert printed.splitlines()[-1] == f'{"They may" if code == 0 else "They may not"}: ' + arguments[
            arguments.index('--api') + 1]


def test_policy_check_prints_the_deciding_rule(run):
    _, printed, _ = run('check', '--roles', 'reader', '--project', 'p1', '--api', 'os_compute_api:servers:create')
    lines = [line.strip() for line in printed.splitlines()]
    assert 'by default: rule:project_member_or_admin' in lines
    assert 'role:member: fails (the roles are reader)  <- decides' in lines
    assert 'project_id:%(project_id)s: passes (p1 is required, the caller has p1)' in lines
    _, printed, _ = run('check', '--roles', 'reader,member', '--project', 'p1', '--target', 'p2',
                        '--api', 'os_compute_api:servers:create')
    assert 'project_id:%(project_id)s: fails (p2 is required, the caller has p1)  <- decides' in printed
    assert 'role:member: passes (the roles are member, reader)\n' in printed


def test_policy_check_prints_the_file_of_a_rule(run):
    _, printed, _ = run('check', '--roles', 'ops', '--api', 'os_compute_api:os-services:list')
    assert (f'by {run.path}/policy.yaml, which has a rule for all of os_compute_api:os-services: role:ops'
            in printed)


def test_policy_check_reads_the_caller_from_a_token_file(run):
    (run.path / 'token.json').write_text(json.dumps({'token': {
        'user': {'id': 'u1', 'name': 'x', 'domain': {'id': 'default'}}, 'project': {'id': 'p1'},
        'roles': [{'id': '1', 'name': 'reader'}]}}))
    code, printed, _ = run('check', '--token-file', 'token.json', '--api', 'GET /servers')
    assert code == 0 and printed.startswith('u1 in p1, with the roles reader, no administrator here.')
    (run.path / 'system.json').write_text(json.dumps({'token': {
        'user': {'id': 'u1', 'name': 'x', 'domain': {'id': 'default'}}, 'system': {'all': True},
        'roles': [{'id': '1', 'name': 'admin'}]}}))
    for api, wanted in (('GET /servers', 1), ('os_compute_api:os-services:list', 1), ('GET /flavors', 0), ('GET /', 2)):
        code, printed, _ = run('check', '--token-file', 'system.json', '--api', api)
        assert code == wanted and ('has no project' in printed) == (wanted == 1), printed
    (run.path / 'bad.json').write_text('[]')
    code, _, said = run('check', '--token-file', 'bad.json', '--api', 'GET /servers')
    assert code == 2 and 'is not a token' in said


def test_a_broken_policy_is_told(run):
    (run.path / 'policy.yaml').write_text('"a": "b')
    code, _, said = run('list')
    assert code == 2 and 'is not YAML' in said and 'Traceback' not in said


@pytest.mark.parametrize(('main', 'name', 'known'), [
    (policy.main, 'nova-policy', 'check, list'), (status.main, 'nova-status', 'upgrade check')])
def test_a_word_that_is_no_command_is_named(main, name, known, capsys):
    """--bogus was passed over: the refusal spoke of a missing COMMAND alone. The refusal is one line."""
    for words, sentence in ((['--bogus'], f'no COMMAND in: --bogus (choose from {known})'),
                            ([], f'COMMAND is missing (choose from {known})')):
        with pytest.raises(SystemExit) as left:
            main(words)
        assert left.value.code == 2
        assert capsys.readouterr().err == f'{name}: {sentence}; see {name} --help\n'


@pytest.mark.parametrize('words', [['--bogus'], ['db', '--bogus'], ['--bogus', 'db']])
def test_nova_manage_refuses_an_option_without_a_command_in_one_line(words, capsys):
    assert manage.main(words) == 2
    out, err = capsys.readouterr()
    assert (out, err.count('\n')) == ('', 1) and err.startswith('nova-manage: unrecognized arguments: --bogus; see ')


def test_nova_status_ends_with_2_after_an_unknown_option(capsys):
    """It was 255, which means that the checks could not be done."""
    for words in (['upgrade', 'check', '--bogus'], ['--bogus', 'upgrade', 'check']):
        assert status.main(words) == 2
        out, err = capsys.readouterr()
        assert (out, err.count('\n')) == ('', 1)
        assert err.startswith('nova-status: unrecognized arguments: --bogus; see ')


def test_options_of_nova_conf_may_precede_the_command(run, capsys):
    words = ['check', '--roles', 'ops', '--api', 'GET /os-services']
    for options in (['--config-file', str(run.path / 'nova.conf')], [f'--config-file={run.path}/nova.conf']):
        assert policy.main([*options, *words]) == 0
        out, err = capsys.readouterr()
        assert (out, err) == run(*words)[1:]


def test_an_unknown_option_is_refused_in_one_line(run):
    code, out, err = run('list', '--bogus')
    assert (code, out) == (2, '') and err.endswith(': unrecognized arguments: --bogus; see pytest --help\n'.replace(
        'pytest', err.rpartition('see ')[2].partition(' ')[0])) and err.count('\n') == 1


def test_member_implies_reader(run):
    assert run('check', '--roles', 'member', '--api', 'GET /servers/{id}')[0] == 0
    _, out, _ = run('check', '--roles', 'manager', '--api', 'GET /servers', '-f', 'json')
    assert json.loads(out)['caller']['roles'] == ['manager', 'member', 'reader']


def test_policy_check_prints_json_and_values(run):
    code, out, _ = run('check', '--roles', 'reader', '--api', 'POST /servers', '--format', 'json')
    found = json.loads(out)
    assert (code, found['allowed'], found['rules'][0]['rule']) == (1, False, 'os_compute_api:servers:create')
    assert run('check', '--roles', 'reader', '--api', 'POST /servers', '--format', 'value') == (1, 'refused\n', '')
    _, out, _ = run('list', '--roles', 'reader', '--format', 'json')
    rules = {row['rule']: row for row in json.loads(out)}
    assert rules['os_compute_api:servers:show']['passes'] and not rules['os_compute_api:servers:create']['passes']
    _, out, _ = run('list', '--roles', 'reader', '--passes', '--format', 'value')
    assert {line.split('\t')[0] for line in out.splitlines()} == {'true'}


def test_policy_list_divides_into_passed_and_failed_rules(run):
    _, everything, _ = run('list', '--roles', 'reader')
    _, passed, _ = run('list', '--roles', 'reader', '--passes')
    _, failed, _ = run('list', '--roles', 'reader', '--fails')
    assert len(passed.splitlines()) + len(failed.splitlines()) == len(everything.splitlines())
    assert 'yes os_compute_api:servers:show\n' in passed and 'no  os_compute_api:servers:create\n' in failed
    assert '/servers/{server_id}' in passed


def test_a_service_says_in_a_sentence_why_it_does_not_start(run):
    """What nova-api and nova-all do with it: common.run prints it and returns 1."""
    (run.path / 'policy.yaml').write_text('"os_compute_api:limits": "rule:nowhere"\n')
    script = ('import sys; from nova import policy; from nova.cmd import common; '
              'sys.exit(common.run("nova-api", lambda conf: [policy.Policy(conf)], sys.argv[1:]))')
    done = subprocess.run([sys.executable, '-W', 'ignore', '-c', script, '--config-file', str(run.path / 'nova.conf')],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and 'Traceback' not in done.stderr
    assert done.stderr.splitlines()[-1] == (f'nova-api: The policy file {run.path}/policy.yaml: '
                                            '"os_compute_api:limits" refers to the rule nowhere, which does not exist.')
