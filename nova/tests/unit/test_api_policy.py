"""Rules: who passes what."""
import os

import pytest

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova import policy

OWN = {'project_id': 'p', 'user_id': 'u'}
OTHER = {'project_id': 'q', 'user_id': 'v'}


@pytest.fixture
def rules():
    return policy.Policy(nova_conf.new())


def _caller(*roles, **more):
    caller = context.RequestContext(user_id='u', project_id='p', roles=list(roles), overwrite=False, **more)
    caller.is_admin = 'admin' in roles
    return caller


@pytest.mark.parametrize('rule,passes', [
    ('os_compute_api:servers:index', {'reader', 'admin'}),
    ('os_compute_api:servers:create', {'member', 'admin'}),
    ('os_compute_api:os-migrate-server:migrate', {'manager', 'admin'}),
    ('os_compute_api:os-services:list', {'admin'}),
    ('os_compute_api:os-server-external-events:create', {'service', 'admin'}),
    ('os_compute_api:extensions', {'reader', 'member', 'manager', 'service', 'admin', 'nothing'}),
    ('compute:servers:resize:cross_cell', set())])
def test_default_roles_pass_their_rules_only(rules, rule, passes):
    roles = {'reader', 'member', 'manager', 'service', 'admin', 'nothing'}
    assert {role for role in roles if rules.allows(_caller(role), rule, OWN)} == passes


def test_only_administrators_use_resources_of_other_projects(rules):
    rule = 'os_compute_api:servers:show'
    assert rules.allows(_caller('reader'), rule, OWN)
    assert not rules.allows(_caller('reader'), rule, OTHER)
    assert rules.allows(_caller('admin'), rule, OTHER)


def test_users_may_delete_their_own_key_pairs_only(rules):
    rule = 'os_compute_api:os-keypairs:delete'
    assert rules.allows(_caller('reader'), rule, OWN) and not rules.allows(_caller('reader'), rule, OTHER)


@pytest.mark.parametrize('check', ['project_id:%(project_id)s', 'user_id:%(user_id)s', 'domain_id:%(domain_id)s',
                                   'project_domain_id:%(project_domain_id)s', 'system_scope:%(system_scope)s',
                                   'None:%(project_id)s', 'project_id:None', 'user_id:'])
def test_policy_check_never_matches_an_absent_value(tmp_path, check):
    """str(None) is a text like any other, and oslo.policy compares texts."""
    (tmp_path / 'policy.yaml').write_text(f'"os_compute_api:limits": "{check}"\n')
    rules = policy.Policy(nova_conf.new(oslo_policy__policy_file=str(tmp_path / 'policy.yaml')))
    caller = context.RequestContext(roles=['reader'], overwrite=False)
    names = ('project_id', 'user_id', 'domain_id', 'project_domain_id', 'system_scope')
    for target in ({}, dict.fromkeys(names), dict.fromkeys(names, '')):
        assert not rules.allows(caller, 'os_compute_api:limits', target), target


@pytest.mark.parametrize('scope', [{}, {'domain_id': 'default'}, {'system_scope': 'all'}])
def test_nobody_administers_without_a_project(rules, scope):
    caller = context.RequestContext(user_id='u', roles=['admin'], overwrite=False, **scope)
    assert rules.is_admin(caller) is False
    assert rules.is_admin(_caller('admin')) is True


def test_cached_policy_answers_are_not_mixed_up(rules):
    """The memory must not give one caller's answer to another."""
    rule = 'os_compute_api:servers:show'
    assert rules.allows(_caller('reader'), rule, OWN)
    stranger = context.RequestContext(user_id='x', project_id='y', roles=['reader'], overwrite=False)
    assert not rules.allows(stranger, rule, OWN)
    assert rules.allows(_caller('reader'), rule, OWN)


def test_authorize_raises_the_name_of_the_refused_rule(rules):
    with pytest.raises(exception.PolicyDenied, match='os-services:list'):
        rules.authorize(_caller('member'), 'os_compute_api:os-services:list', {})


def test_unknown_rule_is_refused(rules):
    assert not rules.allows(_caller('member'), 'os_compute_api:nothing', OWN)


def test_policy_file_and_directory_override_defaults(tmp_path):
    main, directory = tmp_path / 'policy.yaml', tmp_path / 'policy.d'
    directory.mkdir()
    main.write_text('"os_compute_api:os-services:list": "role:watcher"\n')
    (directory / 'more.yaml').write_text('"os_compute_api:limits": "!"\n')
    rules = policy.Policy(nova_conf.new(oslo_policy__policy_file=str(main),
                                        oslo_policy__policy_dirs=[str(directory)]))
    assert rules.allows(_caller('watcher'), 'os_compute_api:os-services:list', {})
    assert not rules.allows(_caller('admin'), 'os_compute_api:os-services:list', {})
    assert not rules.allows(_caller('admin'), 'os_compute_api:limits', {})
    main.write_text('"os_compute_api:os-services:list": "role:admin"\n')
    os.utime(main, (4e9, 4e9))
    rules.forget()
    assert rules.allows(_caller('admin'), 'os_compute_api:os-services:list', {})
    assert not rules.allows(_caller('watcher'), 'os_compute_api:os-services:list', {})


def test_sample_has_meaning_and_operations():
    for rule in policy.list_rules():
        assert rule.description
