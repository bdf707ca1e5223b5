"""The scripts of tools/clients: what they read from the programs that they run."""
import importlib
import pathlib
import sys

import pytest

CLIENTS = pathlib.Path(__file__).resolve().parents[3] / 'tools' / 'clients'
GO = """=== RUN   TestOne
    one_test.go:12: Attempting to create
--- PASS: TestOne (0.25s)
=== RUN   TestTwo
=== RUN   TestTwo/part
    two_test.go:40: \x1b[1;31mFailure in two_test.go, line 40: unexpected error\x1b[0m "got 400"
--- FAIL: TestTwo (1.00s)
    --- FAIL: TestTwo/part (1.00s)
=== RUN   TestThree
    three_test.go:5: this test requires trunk
--- SKIP: TestThree (0.00s)
FAIL
"""
CSI = """<testsuites><testsuite name="CSI Driver Test Suite">
  <testcase classname="CSI Driver Test Suite" time="0.5"
    name="[It] Controller Service [Controller Server] DeleteVolume should fail"></testcase>
  <testcase classname="CSI Driver Test Suite" time="1" name="[It] DeleteSnapshot [Controller Server] should fail">
    <failure message="no">no</failure></testcase></testsuite></testsuites>"""


@pytest.fixture
def script(monkeypatch):
    """A function that imports a script."""
    if not CLIENTS.exists():
        pytest.skip('tools/clients is not part of an installed nova')
    monkeypatch.syspath_prepend(str(CLIENTS.parent))
    monkeypatch.syspath_prepend(str(CLIENTS))
    yield importlib.import_module
    for name in ('common', 'gophercloud', 'plans', 'terraform', 'terraform_aws', 'ansible', 'kubernetes'):
        sys.modules.pop(name, None)


def test_results_of_go_tests_have_their_reasons(script):
    found = script('gophercloud').parse(GO)
    assert {name: (result.outcome, result.seconds) for name, result in found.items()} == {
        'TestOne': ('passed', 0.25), 'TestTwo': ('failed', 1.0), 'TestThree': ('skipped', 0.0)}
    assert found['TestTwo'].text == 'two_test.go:40: Failure in two_test.go, line 40: unexpected error "got 400"'
    assert found['TestThree'].text == 'three_test.go:5: this test requires trunk'


def test_the_cases_of_csi_test_are_tests_of_their_own(script):
    found = script('kubernetes').specs(CSI)
    assert {name: (result.outcome, result.text) for name, result in found.items()} == {
        'sanity Controller Service DeleteVolume should fail': ('passed', ''),
        'sanity DeleteSnapshot should fail': ('failed', 'no')}


def test_the_difference_of_a_plan_names_attributes_with_both_values(script):
    assert script('plans').difference({
        'before': {'name': 'a', 'tags': []}, 'after': {'name': 'b', 'tags': []}, 'after_unknown': {'port': True}}) == (
        'name "a" -> "b", port null -> null')


def test_an_import_has_the_id_of_its_provider_and_leaves_out_what_it_does_not_read(script):
    plans = script('plans')
    provider = plans.Provider({'a_route': '{table}_{range}'}, (), {'a_key': ('public',), 'a_key.one': ('tags',)})
    route = {'type': 'a_route', 'values': {'id': 'x', 'table': 'rtb-1', 'range': '10.0.0.0/8'}}
    assert plans.imported_id(provider, route) == 'rtb-1_10.0.0.0/8'
    assert plans.imported_id(provider, {**route, 'type': 'a_key'}) == 'x'
    assert plans.ignoring(provider, 'a_route.one', 'a_route') == ''
    assert plans.ignoring(provider, 'a_key.one', 'a_key') == (
        'resource "a_key" "one" {\n  lifecycle {\n    ignore_changes = [public, tags]\n  }\n}\n')


def test_a_task_of_ansible_that_reports_a_change_is_not_settled(script):
    ansible = script('ansible')
    assert ansible.outcome({'changed': True}, settled=False).outcome == 'passed'
    assert ansible.outcome({'changed': True}, settled=True).outcome == 'failed'
    assert ansible.outcome({'failed': True, 'msg': 'no\nsuch'}, settled=False) == ('failed', 'no such', 0.0)


def test_all_packages_have_a_version(script):
    common = script('common')
    for client, registry in (('gophercloud', 'go'), ('terraform', 'go'), ('terraform_aws', 'terraform'),
                             ('kubernetes', 'go'), ('ansible', 'pypi')):
        assert all(pin.package and pin.version for pin in common.pins(client, registry))
        assert common.pins(client, registry) != []
    for client, module in (('kubernetes', 'kubernetes'), ('s3', 'rclone')):
        pin = common.pins(client, 'go')[0]
        assert f'{pin.package} {pin.version}\n' in (CLIENTS / module / 'go.mod').read_text()
