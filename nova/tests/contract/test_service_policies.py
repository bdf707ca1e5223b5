"""Rules of the APIs other than compute: names, defaults and guarded operations."""
import logging

import pytest

from nova import conf as nova_conf
from nova import policies
from nova import policy
from nova.cmd import policy as policy_command
from nova.network.rest import documents
from nova.tests.contract import facts
from nova.tests.support.service_policies_contract import DIFFERENT
from nova.tests.support.service_policies_contract import DOCUMENTED
from nova.tests.support.service_policies_contract import OWN


SERVICES = [policy_command.documented(service) for service in policies.SERVICES if service is not policies.COMPUTE]
# API: rules of resources in many operations
EVERYWHERE = {'block storage': {'nova:volumes:administrative'}}
# API: operations that have no documented rule: every caller with a token may use them
WITHOUT_RULE = {
    'identity': set(), 'key manager': set(),
    'network': {
        'GET /', 'GET /extensions', 'GET /extensions/{alias}', 'PUT /default-security-group-rules/{id}',
        *(f'GET /{path}' for path in documents.EMPTY),
        *(f'{method} /{path}' for method, path, _reason in documents.REFUSED)},
    'block storage': {'GET /attachments', 'GET /attachments/detail', 'GET /attachments/{ident}',
                      'GET /os-availability-zone', 'GET /extensions', 'GET /resource_filters'},
    'image': {'GET /v2/schemas/{name}', 'GET /v2/schemas/metadefs/{name}', 'GET /v2/info/import',
              'GET /v2/info/stores', 'GET /v2/info/usage'}}


def routes(service):
    return policy_command._routes(service.name)


def rules_of(row):
    return {row.policy, *row.checks} - {None}


@pytest.mark.parametrize('service', SERVICES, ids=lambda service: service.name)
class TestService:
    def test_each_operation_has_a_known_rule(self, service):
        open_rows = {f'{row.method} {row.path}' for row in routes(service) if not row.public and not rules_of(row)}
        assert open_rows == WITHOUT_RULE[service.name]
        assert not {rule for row in routes(service) for rule in rules_of(row)} - service.guards

    def test_each_rule_guards_an_operation(self, service):
        asked = {rule for row in routes(service) for rule in rules_of(row)}
        assert service.guards - asked == EVERYWHERE.get(service.name, set())

    def test_names_and_defaults_are_the_documented_ones(self, service):
        documented = {name: check for name, (check, _scopes) in facts.service_policies(
            DOCUMENTED[service.name]).items()}
        ours = {**service.defaults, **service.absent}
        assert len(service.defaults) + len(service.absent) == len(ours)
        assert ours.keys() - documented.keys() == OWN[service.name]
        assert documented.keys() <= ours.keys()
        assert {name for name, check in documented.items() if ours[name] != check} == DIFFERENT[service.name].keys()

    def test_scopes_are_the_documented_ones(self, service):
        documented = facts.service_policies(DOCUMENTED[service.name])
        assert {name: scope for name, scope in service.scopes.items() if name in documented
                and set(scope) != set(documented[name][1] or scope)} == {}

    def test_descriptions_are_sentences_of_their_own(self, service):
        texts = [rule.description for rule in service.rules]
        assert all(text.endswith('.') and text[0].isupper() and len(text) < 160 for text in texts)
        assert all(rule.operations for rule in service.rules)

    def test_operations_of_a_rule_are_operations_of_the_api(self, service):
        served = {(row.method, _nameless(row.path)): row for row in routes(service)}
        for rule in service.rules:
            for method, path in rule.operations:
                found = ('GET' if method == 'HEAD' else method, _nameless(path.partition(' ')[0]))
                assert found in served, rule.name

    def test_a_file_with_all_documented_rules_loads(self, service, tmp_path, caplog):
        documented = facts.service_policies(DOCUMENTED[service.name])
        path = tmp_path / 'policy.yaml'
        path.write_text(''.join(f'"{name}": "{check}"\n' for name, (check, _scopes) in documented.items())
                        + '"unknown:rule": "@"\n')
        with caplog.at_level(logging.WARNING):
            rules = policy.Policy(nova_conf.new(files=[], **{f'{service.group}__policy_file': str(path)}), service)
        assert {name: rules.rules[name].text for name in documented} == {
            name: check for name, (check, _scopes) in documented.items()}
        idle, unknown = sorted(caplog.messages)
        assert 'the unknown rule unknown:rule' in unknown
        assert set(idle.rpartition(': ')[2].rstrip('.').split(', ')) >= service.absent.keys() - {
            name for rule in service.guards for name in _referred(rules, rule)}

    def test_a_rule_that_refers_to_an_absent_one_loads(self, service, tmp_path):
        path, name = tmp_path / 'policy.yaml', next(iter(service.absent))
        rule = service.rules[0].name
        path.write_text(f'"{rule}": "rule:{name}"\n')
        rules = policy.Policy(nova_conf.new(files=[], **{f'{service.group}__policy_file': str(path)}), service)
        assert rules.rules[name].text == service.absent[name]


def _referred(rules, name):
    """Names of the rules that a rule refers to, directly or not."""
    from nova.policies import files
    for other in files.references(rules.rules[name].check):
        yield other
        yield from _referred(rules, other)


def _nameless(path):
    return '/'.join('{}' if part.startswith('{') else part for part in path.strip('/').split('/'))


def test_base_rules_of_one_api_do_not_apply_to_another(tmp_path):
    shared = {name for service in policies.SERVICES for name, *_ in service.base}
    for changed in policies.SERVICES:
        path = tmp_path / f'{changed.name}.yaml'
        path.write_text(''.join(f'"{name}": "!"\n' for name in sorted(shared)))
        conf = nova_conf.new(files=[], **{f'{changed.group}__policy_file': str(path)})
        for service in policies.SERVICES:
            rules = policy.Policy(conf, service)
            texts = {name: rules.rules[name].text for name, *_ in service.base}
            if service is changed:
                assert set(texts.values()) == {'!'}
            else:
                assert texts == {name: check for name, check, _description in service.base}
