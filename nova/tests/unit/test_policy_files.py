"""policy.yaml and policy.d: what wins, what is refused, what is taken up."""
import logging
import os

import pytest

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova import policies
from nova import policy
from nova.api import app
from nova.policies import base
from nova.policies import files
from nova.policies import legacy_names

OWN = {'project_id': 'p', 'user_id': 'u'}


class Deployment:
    """A main file and a directory; ``rules()`` is the Policy that they make."""

    def __init__(self, path):
        self.path, self._age = path, 0
        (path / 'policy.d').mkdir()

    def write(self, text, name='policy.yaml'):
        file = self.path / name
        file.write_text(text)
        self._age += 1
        os.utime(file, (1_000_000_000 + self._age,) * 2)
        return file

    def rules(self):
        return policy.Policy(nova_conf.new(files=[], oslo_policy__policy_file=str(self.path / 'policy.yaml'),
                                           oslo_policy__policy_dirs=[str(self.path / 'policy.d')]))


@pytest.fixture
def deployment(tmp_path):
    made = Deployment(tmp_path)
    made.write('')
    return made


def may(rules, role, rule, target=OWN):
    caller = context.RequestContext(user_id='u', project_id='p', roles=[role], overwrite=False)
    caller.is_admin = rules.is_admin(caller)
    return rules.allows(caller, rule, target)


LIST, UPDATE = 'os_compute_api:os-services:list', 'os_compute_api:os-services:update'


def test_later_files_win(deployment):
    deployment.write(f'"{LIST}": "role:main"\n"{UPDATE}": "role:main"\n')
    deployment.write(f'"{LIST}": "role:twenty"\n', 'policy.d/20-b.yaml')
    deployment.write(f'"{LIST}": "role:ten"\n"os_compute_api:limits": "role:ten"\n', 'policy.d/10-z.yaml')
    deployment.write(f'"{LIST}": "role:hidden"\n', 'policy.d/.30.yaml')
    deployment.write(f'"{LIST}": "role:backup"\n', 'policy.d/40.yaml~')
    rules = deployment.rules()
    for role, passed in (('twenty', True), ('ten', False), ('main', False), ('hidden', False), ('backup', False),
                         ('admin', False)):
        assert may(rules, role, LIST) is passed, role
    assert may(rules, 'main', UPDATE) and may(rules, 'ten', 'os_compute_api:limits')
    assert rules.rules[LIST].source.endswith('20-b.yaml')


def test_without_a_main_file_the_directory_counts(tmp_path):
    (tmp_path / 'd').mkdir()
    (tmp_path / 'd' / 'a.json').write_text(f'{{"{LIST}": "role:json"}}')
    rules = policy.Policy(nova_conf.new(files=[], oslo_policy__policy_dirs=[str(tmp_path / 'd')]))
    assert may(rules, 'json', LIST)


def test_a_rule_of_an_extension_stands_for_its_operations(deployment):
    deployment.write(f'"os_compute_api:os-services": "role:ops"\n"{UPDATE}": "role:boss"\n')
    rules = deployment.rules()
    assert may(rules, 'ops', LIST) and may(rules, 'ops', 'os_compute_api:os-services:delete')
    assert not may(rules, 'admin', LIST)
    assert may(rules, 'boss', UPDATE) and not may(rules, 'ops', UPDATE)
    assert not may(rules, 'ops', 'os_compute_api:os-hypervisors:list')
    assert rules.rules[LIST].by == 'os_compute_api:os-services' and rules.rules[UPDATE].by is None


def test_a_nearer_extension_wins(deployment):
    deployment.write('"os_compute_api:os-security-groups": "role:far"\n'
                     '"os_compute_api:os-security-groups:rule": "role:near"\n')
    rules = deployment.rules()
    assert may(rules, 'near', 'os_compute_api:os-security-groups:rule:create')
    assert may(rules, 'far', 'os_compute_api:os-security-groups:list')
    assert not may(rules, 'far', 'os_compute_api:os-security-groups:rule:create')


@pytest.mark.parametrize('rule', [
    'os_compute_api:servers:create:forced_host', 'os_compute_api:servers:index:get_all_tenants',
    'os_compute_api:servers:allow_all_filters', 'os_compute_api:servers:show:host_status',
    'compute:servers:create:requested_destination'])
def test_an_extension_gives_nothing_that_is_more_than_its_operations(deployment, rule):
    deployment.write('"os_compute_api:servers": "role:member"\n"compute:servers": "role:member"\n'
                     '"os_compute_api": "role:member"\n"compute": "role:member"\n')
    rules = deployment.rules()
    assert may(rules, 'member', 'os_compute_api:servers:show')
    assert not may(rules, 'member', 'os_compute_api:os-services:list')
    assert not may(rules, 'member', rule)


def test_a_rule_that_has_parts_stands_for_itself(deployment):
    deployment.write('"os_compute_api:limits": "@"\n"os_compute_api:os-flavor-access": "@"\n')
    rules = deployment.rules()
    assert may(rules, 'nobody', 'os_compute_api:limits')
    assert not may(rules, 'nobody', 'os_compute_api:limits:other_project')
    assert not may(rules, 'nobody', 'os_compute_api:os-flavor-access:add_tenant_access')


def test_extension_does_not_grant_rules_checked_within_handlers():
    """A rule that guards no operation gives more within one: with its extension nobody should get it unawares."""
    guards = {row.policy for row in app.all_routes()}
    known = {name: text for name, text, *_ in policies.RULES}
    asked = {rule for row in app.all_routes() for rule in row.checks if row.policy is not None}
    for name in asked - guards:
        assert files._extension(name, known) is None or known[name] != base.ADMIN, name
    assert known.keys() >= policies.EXTRAS and not guards & policies.EXTRAS


@pytest.mark.parametrize(('text', 'words'), [
    ('"a": "b', 'is not YAML'), ('- a\n- b\n', 'is not a mapping'), ('"a": 5\n', 'which is not a rule'),
    ('7: "role:x"\n', 'which is not a rule'), (f'"{LIST}": "role:a and"\n', 'has an invalid check'),
    (f'"{LIST}": "(role:a"\n', 'has an invalid check'), (f'"{LIST}": "role:a or nonsense"\n', 'has an invalid check'),
    (f'"{LIST}": "rule:missing"\n', 'refers to the rule missing, which does not exist'),
    ('"mine": "rule:yours"\n"yours": "rule:mine"\n', 'refers to itself: mine → yours → mine'),
    ('"context_is_admin": "rule:context_is_admin"\n', 'refers to itself')])
def test_a_broken_file_is_refused_in_a_sentence(deployment, text, words):
    path = deployment.write(text, 'policy.d/bad.yaml')
    with pytest.raises(exception.InvalidInput) as caught:
        deployment.rules()
    assert words in caught.value.message and str(path) in caught.value.message, caught.value.message


@pytest.mark.parametrize('text', [f'"{LIST}": "!"\n', f'"{LIST}": "not role:x and (! or role:y)"\n', f'"{LIST}": ""\n',
                                  f'"{LIST}": "role:x or \'a\':%(project_id)s"\n', f'"{LIST}": [["role:x"], ["!"]]\n'])
def test_unusual_checks_are_understood(deployment, text):
    deployment.write(text)
    deployment.rules()


def test_configured_policy_file_must_exist(tmp_path):
    with pytest.raises(exception.InvalidInput, match='does not exist'):
        policy.Policy(nova_conf.new(files=[], oslo_policy__policy_file=str(tmp_path / 'no.yaml')))


def test_changes_are_taken_up(deployment):
    rules = deployment.rules()
    assert may(rules, 'admin', LIST)
    deployment.write(f'"{LIST}": "role:new"\n', 'policy.d/a.yaml')
    assert may(rules, 'admin', LIST)                       # not yet: answers are remembered for a while
    rules.forget()
    assert may(rules, 'new', LIST) and not may(rules, 'admin', LIST)
    deployment.write(f'"{LIST}": "role:newer"\n', 'policy.d/a.yaml')
    rules.forget()
    assert may(rules, 'newer', LIST) and not may(rules, 'new', LIST)
    deployment.write(f'"{UPDATE}": "role:main"\n')         # the main file alone: the others still count
    rules.forget()
    assert may(rules, 'newer', LIST) and may(rules, 'main', UPDATE)
    os.remove(deployment.path / 'policy.d' / 'a.yaml')
    rules.forget()
    assert may(rules, 'admin', LIST)


@pytest.mark.parametrize('broken', [f'"{LIST}": "role:good or\n', f'"{LIST}": 2026-13-45\n', '[' * 5000])
def test_a_change_that_breaks_a_file_changes_nothing(deployment, caplog, broken):
    deployment.write(f'"{LIST}": "role:good"\n')
    rules = deployment.rules()
    deployment.write(broken)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            rules.forget()
            assert may(rules, 'good', LIST) and not may(rules, 'admin', LIST)
    assert len([record for record in caplog.records if 'previous rules remain in effect' in record.message]) == 1
    deployment.write(f'"{LIST}": "role:better"\n')
    rules.forget()
    assert may(rules, 'better', LIST)


def test_a_rule_that_nothing_asks_is_told(deployment, caplog):
    deployment.write('"os_compute_api:os-servces:list": "role:typo"\n"helper": "role:x"\n'
                     f'"{LIST}": "rule:helper"\n"os_compute_api:os-services": "role:y"\n')
    with caplog.at_level(logging.WARNING):
        deployment.rules()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1 and 'os-servces:list' in told[0]


PAUSE, SHOW = 'os_compute_api:os-pause-server:pause', 'os_compute_api:servers:show'


def test_names_of_the_older_api_count_until_todays_are_written(deployment):
    """Files of it were read and had no effect."""
    deployment.write('{"admin_or_owner": [["is_admin:True"], ["project_id:%(project_id)s"]],'
                     ' "compute:get": "role:looker", "compute_extension:services": "role:ops",'
                     ' "compute_extension:hosts": [["role:ops"], ["role:a", "role:b"]],'
                     ' "compute_extension:admin_actions:pause": "role:x", "compute:pause": "role:y"}')
    rules = deployment.rules()
    assert may(rules, 'looker', SHOW) and not may(rules, 'reader', SHOW)
    assert may(rules, 'ops', LIST) and not may(rules, 'admin', LIST)
    assert may(rules, 'ops', 'os_compute_api:os-hosts:list') and not may(rules, 'a', 'os_compute_api:os-hosts:list')
    assert not may(rules, 'x', PAUSE) and not may(rules, 'y', PAUSE)         # the older API asked both
    assert rules.rules[PAUSE].text.startswith('(role:x) and (role:y) and ')
    deployment.write(f'"{LIST}": "role:new"\n', 'policy.d/00-v2.1-api.conf')
    rules = deployment.rules()
    assert may(rules, 'new', LIST) and not may(rules, 'ops', LIST)
    assert may(rules, 'ops', UPDATE)


def test_half_of_an_older_pair_narrows_and_never_widens(deployment):
    deployment.write('"compute:get_diagnostics": ""\n"compute:get_all_tenants": ""\n'
                     '"compute_extension:server_groups": ""\n')
    rules = deployment.rules()
    assert not may(rules, 'member', 'os_compute_api:os-server-diagnostics')
    assert not may(rules, 'member', 'os_compute_api:servers:index:get_all_tenants')
    assert not may(rules, 'member', 'os_compute_api:os-server-groups:index:all_projects')
    assert may(rules, 'stranger', 'os_compute_api:os-server-groups:index')


@pytest.mark.parametrize('former, rule', [
    ('compute_extension:keypairs:show', 'os_compute_api:os-keypairs:show'),
    ('compute_extension:quotas:show', 'os_compute_api:os-quota-sets:show'),
    ('compute_extension:simple_tenant_usage:show', 'os_compute_api:os-simple-tenant-usage:show'),
    ('compute:get', SHOW),
])
def test_an_older_rule_for_everybody_is_for_what_is_the_callers(deployment, former, rule):
    """The older API's code kept users apart beside its rules; its files open them to everybody."""
    deployment.write(f'"{former}": ""\n')
    rules = deployment.rules()
    assert may(rules, 'whatever', rule, {'project_id': 'p', 'user_id': 'u'})
    assert not may(rules, 'member', rule, {'project_id': 'another', 'user_id': 'another'})
    assert may(rules, 'admin', rule, {'project_id': 'another', 'user_id': 'another'})


def test_files_of_several_apis_are_read_in_order(deployment):
    deployment.write('"admin_api": "is_admin:True"\n', 'policy.conf')
    deployment.write('"ec2_api:RunInstances": "role:ec2"\n', 'policy.d/00-ec2-api.conf')
    deployment.write('"compute_extension:services": "role:v2"\n', 'policy.d/00-v2-api.conf')
    deployment.write(f'"{LIST}": "role:v21"\n', 'policy.d/00-v2.1-api.conf')
    deployment.write('"ec2_api:RunInstances": "role:site"\n', 'policy.d/50-site.conf')
    rules = deployment.rules()
    assert may(rules, 'site', 'ec2_api:RunInstances') and not may(rules, 'ec2', 'ec2_api:RunInstances')
    assert may(rules, 'v21', LIST) and may(rules, 'v2', UPDATE)


def test_one_warning_for_each_older_name(deployment, caplog):
    deployment.write('"compute_extension:services": "role:ops"\n"compute:get_all_tenants": "@"\n')
    rules = deployment.rules()
    rules.add({'plugin:x': '@'})
    said = [record.getMessage() for record in caplog.records if record.name == 'nova.policy']
    assert len(said) == 2
    assert 'compute_extension:services, a legacy name' in said[0] and 'unknown rule' in said[1]


@pytest.mark.parametrize('service', policies.SERVICES, ids=lambda service: service.name)
def test_default_rules_refer_to_rules_that_there_are_without_a_circle(service):
    rules = policy.Policy(None, service)
    assert all(other in rules.rules for rule in rules.rules.values() for other in files.references(rule.check))
    for name in rules.rules:
        rules.compares(name)                     # follows references until it knows all


def test_older_names_lead_to_rules_that_there_are():
    known = {name for name, *_ in policies.RULES}
    for name, rules in legacy_names.NAMES.items():
        for rule in rules:
            if rule.endswith(legacy_names.ALL):
                assert any(each.startswith(rule[:-1]) for each in known), (name, rule)
            else:
                assert rule in known, (name, rule)


# {attribute of a caller: (check that compares with it, a value that passes, one that does not)}; of others the check is
# ``attribute:one``.
COMPARED = {'is_admin': ('is_admin:True', True, False), 'roles': ('role:one', ['one'], ['two']),
            'service_roles': ('service_roles:one', ['one'], ['two'])}


@pytest.mark.parametrize('attribute', sorted({*context.RequestContext(overwrite=False).to_policy_values(), 'is_admin'}))
def test_answers_are_remembered_for_one_value_of_each_attribute_of_the_caller(deployment, attribute):
    """A rule may compare with any of them, those of the service that sent the request among them."""
    check, one, two = COMPARED.get(attribute, (f'{attribute}:one', 'one', 'two'))
    deployment.write(f'"{LIST}": "{check}"\n')
    rules = deployment.rules()
    caller = context.RequestContext(user_id='u', project_id='p', overwrite=False)
    found = []
    for value in (one, two, one, two):
        setattr(caller, attribute, value)
        found.append(rules.allows(caller, LIST, {}))
    assert found == [True, False, True, False]


def test_unreadable_policy_directory_is_refused(tmp_path):
    (tmp_path / 'policy.d').write_text('')           # root may read any directory, but no file is one
    with pytest.raises(exception.InvalidInput, match=f'Cannot read the policy directory {tmp_path}/policy.d: .*Not a'):
        policy.Policy(nova_conf.new(files=[], oslo_policy__policy_dirs=[str(tmp_path / 'policy.d')]))


def test_unreadable_policy_file_is_refused(deployment):
    (deployment.path / 'policy.d' / '10.yaml').symlink_to('10.yaml')
    with pytest.raises(exception.InvalidInput, match='Cannot read the policy file .*10.yaml'):
        deployment.rules()
