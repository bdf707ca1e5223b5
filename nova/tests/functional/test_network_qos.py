"""Policies of bandwidth: with the unmodified client, as other projects, and down to what a host is told."""
import pytest

from nova.db.networks import hosts
from nova.network.host import routers as host_routers
from nova.network.host import state as host_state
from nova.network.linux import frames
from nova.network.linux import limits
from nova.network.linux import router as linux_router
from nova.network.linux import validators
from nova.tests.support import network_api as test_network_api
from nova.tests.support import network_manager as unit
from nova.tests.support.network_routers import ok
from nova.tests.support.network_routers import outside
from nova.tests.support.network_routers import router


@pytest.fixture
def face(tmp_path):
    rig = test_network_api.Face(tmp_path)
    yield rig
    rig.close()


def test_openstackclient_manages_qos_policies(face):
    policy = face.cli('network', 'qos', 'policy', 'create', 'slow', '--share', '--description', 'd')
    assert policy['shared'] and policy['rules'] == []
    rule = face.cli('network', 'qos', 'rule', 'create', '--type', 'bandwidth-limit', '--max-kbps', '3000',
                    '--max-burst-kbits', '300', '--egress', 'slow')
    assert (rule['max_kbps'], rule['max_burst_kbps'], rule['direction']) == (3000, 300, 'egress')
    face.cli('network', 'qos', 'rule', 'set', '--max-kbps', '4000', 'slow', rule['id'])
    assert face.cli('network', 'qos', 'rule', 'show', 'slow', rule['id'])['max_kbps'] == 4000
    assert [row['Max Kbps'] for row in face.cli('network', 'qos', 'rule', 'list', 'slow')] == [4000]
    assert [row['Type'] for row in face.cli('network', 'qos', 'rule', 'type', 'list')] == [
        'bandwidth_limit', 'dscp_marking', 'minimum_bandwidth', 'minimum_packet_rate']
    for flag, number in (('--all-supported', 4), ('--all-rules', 5)):
        assert len(face.cli('network', 'qos', 'rule', 'type', 'list', flag)) == number
    assert face.cli('network', 'qos', 'rule', 'type', 'show', 'bandwidth_limit')['rule_type_name'] == 'bandwidth_limit'
    marking = face.cli('network', 'qos', 'rule', 'create', '--type', 'dscp-marking', '--dscp-mark', '26', 'slow')
    face.cli('network', 'qos', 'rule', 'set', '--dscp-mark', '46', 'slow', marking['id'])
    assert [row['DSCP mark'] for row in face.cli('network', 'qos', 'rule', 'list', 'slow')] == ['', 46]
    face.cli('network', 'qos', 'rule', 'delete', 'slow', marking['id'])
    for kind, flag, name in (('minimum-bandwidth', '--min-kbps', 'min_kbps'),
                             ('minimum-packet-rate', '--min-kpps', 'min_kpps')):
        minimum = face.cli('network', 'qos', 'rule', 'create', '--type', kind, flag, '1000', '--egress', 'slow')
        assert (minimum['type'], minimum[name], minimum['direction']) == (kind.replace('-', '_'), 1000, 'egress')
        face.cli('network', 'qos', 'rule', 'set', flag, '2000', '--ingress', 'slow', minimum['id'])
        minimum = face.cli('network', 'qos', 'rule', 'show', 'slow', minimum['id'])
        assert (minimum[name], minimum['direction']) == (2000, 'ingress')
        face.cli('network', 'qos', 'rule', 'delete', 'slow', minimum['id'])
    code, text = face.cli('network', 'qos', 'rule', 'create', '--type', 'bandwidth-limit', '--max-kbps', '1',
                          '--egress', 'slow', check=False)
    assert code == 1 and 'already' in text
    face.cli('network', 'set', '--qos-policy', 'slow', 'private')
    port = face.cli('port', 'create', 'p', '--network', 'private', '--qos-policy', 'slow', user='demo')
    assert (port['qos_policy_id'], port['qos_network_policy_id']) == (policy['id'], policy['id'])
    code, text = face.cli('network', 'qos', 'policy', 'delete', 'slow', check=False)
    assert code == 1 and 'is used by port' in text
    face.cli('port', 'unset', '--qos-policy', 'p', user='demo')
    face.cli('network', 'set', '--no-qos-policy', 'private')
    face.cli('network', 'qos', 'rule', 'delete', 'slow', rule['id'])
    face.cli('network', 'qos', 'policy', 'set', '--name', 'slower', '--no-share', 'slow')
    assert [row['Name'] for row in face.cli('network', 'qos', 'policy', 'list')] == ['slower']
    face.cli('network', 'qos', 'policy', 'delete', 'slower')
    assert face.cli('network', 'qos', 'policy', 'list') == []


def test_projects_use_what_is_theirs_and_take_nothing_off_that_is_not(face):
    def policy(**values):
        answer = face('admin', 'POST', 'qos/policies', {'policy': values})
        assert answer.status_code == 201, answer.text
        return answer.json()['policy']['id']
    shared, own, foreign = policy(shared=True), policy(project_id='p1'), policy(project_id='p2')
    listed = {row['id'] for row in face('demo', 'GET', 'qos/policies').json()['policies']}
    assert listed == {shared, own}
    assert face('demo', 'GET', f'qos/policies/{foreign}').status_code == 404
    assert face('demo', 'GET', f'qos/policies/{foreign}/bandwidth_limit_rules').status_code == 404
    assert face('demo', 'POST', 'qos/policies', {'policy': {}}).status_code == 403
    assert face('demo', 'POST', f'qos/policies/{own}/bandwidth_limit_rules', {
        'bandwidth_limit_rule': {'max_kbps': 1}}).status_code == 403
    assert face('demo', 'DELETE', f'qos/policies/{own}').status_code == 403
    port = face('demo', 'POST', 'ports', {'port': {'network_id': face.network_id, 'qos_policy_id': own}}).json()['port']
    path = f"ports/{port['id']}"
    assert face('demo', 'PUT', path, {'port': {'qos_policy_id': foreign}}).status_code == 404
    assert face('demo', 'PUT', path, {'port': {'qos_policy_id': shared}}).status_code == 200
    assert face('admin', 'PUT', path, {'port': {'qos_policy_id': foreign}}).status_code == 200
    assert face('demo', 'PUT', path, {'port': {'qos_policy_id': None}}).status_code == 403
    assert face('demo', 'PUT', path, {'port': {'qos_policy_id': own}}).status_code == 403
    assert face('demo', 'PUT', path, {'port': {'name': 'x'}}).status_code == 200
    answer = face('demo', 'POST', 'floatingips', {'floatingip': {'floating_network_id': 'x', 'qos_policy_id': own}})
    assert answer.status_code == 400 and 'policies apply to ports, networks' in answer.text
    for bad in ({'max_kbps': 0}, {'max_kbps': 80_000_001}, {'max_kbps': '9' * 30}, {},
                {'max_kbps': 1, 'direction': 'up'}):
        answer = face('admin', 'POST', f'qos/policies/{own}/bandwidth_limit_rules', {'bandwidth_limit_rule': bad})
        assert answer.status_code == 400, bad


def test_a_policy_in_use_by_others_stays_shared(face):
    def share(policy, shared):
        return face('admin', 'PUT', f'qos/policies/{policy}', {'policy': {'shared': shared, 'name': 'x'}}).status_code
    policy = ok(face('admin', 'POST', 'qos/policies', {'policy': {'shared': True}}))['id']
    assert share(policy, False) == share(policy, True) == 200
    own = ok(face('admin', 'POST', 'ports', {'port': {'network_id': face.network_id, 'qos_policy_id': policy}}))
    assert share(policy, False) == share(policy, True) == 200
    port = ok(face('demo', 'POST', 'ports', {'port': {'network_id': face.network_id, 'qos_policy_id': policy}}))
    refused = face('admin', 'PUT', f'qos/policies/{policy}', {'policy': {'shared': False}})
    assert refused.status_code == 409 and refused.json()['NeutronError']['type'] == 'RbacPolicyInUse'
    for target in ('p2', 'p1'):
        rule = ok(face('admin', 'POST', 'rbac-policies', {'rbac_policy': {
            'object_type': 'qos_policy', 'object_id': policy, 'action': 'access_as_shared', 'target_tenant': target}}))
        assert share(policy, False) == (200 if target == 'p1' else 409)
    assert face('admin', 'DELETE', f'rbac-policies/{rule["id"]}').status_code == 409
    ok(face('demo', 'PUT', f'ports/{port["id"]}', {'port': {'qos_policy_id': None}}), 200)
    ok(face('admin', 'DELETE', f'rbac-policies/{rule["id"]}'), 204)
    assert face('demo', 'GET', f'qos/policies/{policy}').status_code == 404
    ok(face('admin', 'DELETE', f'ports/{own["id"]}'), 204)
    ok(face('admin', 'DELETE', f'qos/policies/{policy}'), 204)


def test_host_state_contains_the_effective_bandwidth_limits_of_ports(face):
    def limit(policy, **values):
        answer = face('admin', 'POST', f'qos/policies/{policy}/bandwidth_limit_rules', {'bandwidth_limit_rule': values})
        assert answer.status_code == 201, answer.text
    policies = [face('admin', 'POST', 'qos/policies', {'policy': {'shared': True}}).json()['policy']['id']
                for _ in range(2)]
    limit(policies[0], max_kbps=1000)
    limit(policies[0], max_kbps=2000, direction='ingress', max_burst_kbps=4000)
    limit(policies[1], max_kbps=9000)
    face('admin', 'PUT', f'networks/{face.network_id}', {'network': {'qos_policy_id': policies[0]}})
    vif, = face.allocate(unit.make_instance())
    face.allocate(unit.make_instance())
    face('admin', 'PUT', f"ports/{vif['id']}", {'port': {'qos_policy_id': policies[1]}})
    state = face.manager.load()
    found = {port.id: port.limits for port in state.ports}
    assert found.pop(vif['id']) == [['egress', 9000, 0]]
    assert list(found.values()) == [[['egress', 1000, 0], ['ingress', 2000, 4000]]]
    arrived = validators.state(face.conf.network.bridge, ())(host_state.as_json(state))
    assert {port.id: port.limits for port in arrived.ports} == {port.id: port.limits for port in state.ports}


@pytest.mark.parametrize('of', ['port', 'network'])
def test_host_state_contains_the_limits_and_marks_of_subports(face, of):
    """They had no effect."""
    policy = face('admin', 'POST', 'qos/policies', {'policy': {'shared': True}}).json()['policy']['id']
    for kind, values in (('bandwidth_limit', {'max_kbps': 9000}), ('dscp_marking', {'dscp_mark': 26})):
        answer = face('admin', 'POST', f'qos/policies/{policy}/{kind}_rules', {f'{kind}_rule': values})
        assert answer.status_code == 201, answer.text
    parent, below = (face('demo', 'POST', 'ports', {'port': {'network_id': face.network_id}}).json()['port']['id']
                     for _ in range(2))
    answer = face('demo', 'POST', 'trunks', {'trunk': {'port_id': parent, 'sub_ports': [
        {'port_id': below, 'segmentation_type': 'vlan', 'segmentation_id': 5}]}})
    assert answer.status_code == 201, answer.text
    face.allocate(unit.make_instance(), [{'network_id': None, 'port_id': parent, 'fixed_ip': None, 'tag': None}])
    answer = face('admin', 'PUT', f'ports/{below}' if of == 'port' else f'networks/{face.network_id}', {
        of: {'qos_policy_id': policy}})
    assert answer.status_code == 200, answer.text
    found = {port.id: (port.limits, port.dscp_mark) for port in face.manager.load().ports}
    limited = [['egress', 9000, 0]], 26
    assert found == {below: limited, parent: ([], None) if of == 'port' else limited}


def test_dscp_rules_are_validated_and_reach_the_host(face):
    policy = face('admin', 'POST', 'qos/policies', {'policy': {'shared': True}}).json()['policy']['id']
    path = f'qos/policies/{policy}/dscp_marking_rules'
    for bad in (1, 64, -2, '26x', None, True, 26.5, []):
        assert face('admin', 'POST', path, {'dscp_marking_rule': {'dscp_mark': bad}}).status_code == 400, bad
    assert face('demo', 'POST', path, {'dscp_marking_rule': {'dscp_mark': 26}}).status_code == 403
    made = face('admin', 'POST', path, {'dscp_marking_rule': {'dscp_mark': '26'}}).json()['dscp_marking_rule']
    assert made == {'id': made['id'], 'qos_policy_id': policy, 'type': 'dscp_marking', 'dscp_mark': 26}
    assert face('admin', 'POST', path, {'dscp_marking_rule': {'dscp_mark': 8}}).status_code == 409
    assert face('demo', 'GET', f'qos/policies/{policy}').json()['policy']['rules'] == [made]
    face.allocate(unit.make_instance())
    vif, = face.allocate(unit.make_instance())
    face('admin', 'PUT', f"ports/{vif['id']}", {'port': {'qos_policy_id': policy}})
    state = face.manager.load()
    assert sorted(str(port.dscp_mark) for port in state.ports) == ['26', 'None']
    sent = host_state.as_json(state)
    validated = validators.state(face.conf.network.bridge, ())
    assert validated(sent).ports == state.ports
    with pytest.raises(ValueError):
        validated({**sent, 'ports': [{**port, 'dscp_mark': 26.0} for port in sent['ports']]})
    assert face('admin', 'PUT', f'{path}/{made["id"]}', {'dscp_marking_rule': {'dscp_mark': 0}}).status_code == 200
    assert {port.dscp_mark for port in face.manager.load().ports} == {None, 0}
    for method, code in (('GET', 200), ('DELETE', 204), ('DELETE', 404), ('GET', 404)):
        assert face('admin', method, f'{path}/{made["id"]}').status_code == code
    assert {port.dscp_mark for port in face.manager.load().ports} == {None}


def test_a_mark_stands_beside_a_limit():
    ran = []
    applied = limits.Limits(lambda *words, stdin: ran.append(stdin), 'nova_x')
    port = host_state.Port('p', 'tap1', '', '', [], [], limits=[['egress', 1000, 0]], dscp_mark=46)
    applied.apply([port], lambda: '', {})
    assert 'from_tap1 ether type ip ip dscp set 46\n' in ran[-1] and 'from_tap1 limit rate over' in ran[-1]
    assert 'from_tap1 ether type ip6 ip6 dscp set 46\n' in ran[-1] and ran[-1].count('add element') == 1


def test_a_limit_is_loaded_when_it_changes_and_not_before():
    """One that is loaded again gives its guest the burst again."""
    assert limits.rule(80_000_000, 0).endswith('burst 4294967295 bytes drop')
    ran = []
    applied = limits.Limits(lambda *words, stdin: ran.append(stdin), 'nova_x')
    port = host_state.Port('p', 'tap1', '', '', [], [], limits=[['egress', 1000, 0]])
    other = host_state.Port('q', 'tap2', '', '', [], [], limits=[['ingress', 8000, 16000]])
    applied.apply([port], lambda: '', {})
    assert 'limit rate over 125000 bytes/second burst 100000 bytes drop' in ran[-1]
    del ran[:]
    applied.apply([port, other], lambda: 'table bridge nova_x_limits\n', {})
    text, = ran
    assert 'tap1' not in text and 'to_tap2 limit rate over 1000000 bytes/second burst 2000000 bytes drop' in text
    applied.apply([port, other], lambda: 'table bridge nova_x_limits\n', {})
    assert len(ran) == 1
    applied.apply([other], lambda: 'table bridge nova_x_limits\n', {})
    assert 'delete chain bridge nova_x_limits from_tap1' in ran[-1] and 'tap2' not in ran[-1]


def test_a_policy_limits_the_gateway_of_a_router(face):
    with face.db.writer() as conn:
        hosts.seen(conn, 'host1', '192.0.2.1', True)
    external = outside(face)
    hidden, shared = (ok(face('admin', 'POST', 'qos/policies', {'policy': {'name': 'p', 'shared': each}}))['id']
                      for each in (False, True))
    ok(face('admin', 'POST', f'qos/policies/{shared}/bandwidth_limit_rules', {'bandwidth_limit_rule': {
        'max_kbps': 1000, 'direction': 'ingress'}}))
    ok(face('admin', 'POST', f'qos/policies/{shared}/dscp_marking_rules', {'dscp_marking_rule': {'dscp_mark': 46}}))

    def gateway(user, ident, code=200, **values):
        answer = face(user, 'PUT', f'routers/{ident}', {'router': {'external_gateway_info': {
            'network_id': external, **values}}})
        assert answer.status_code == code, answer.text
        return answer.json()['router']['external_gateway_info']['qos_policy_id'] if code == 200 else None

    made = router(face, external)
    assert face('demo', 'POST', 'routers', {'router': {'external_gateway_info': {'qos_policy_id': shared}}}
                ).status_code == 400
    gateway('demo', made, 404, qos_policy_id=hidden)
    assert gateway('demo', made, qos_policy_id=shared) == shared
    assert gateway('demo', made) == shared, 'what is not named stays'
    answer = face('admin', 'DELETE', f'qos/policies/{shared}')
    assert answer.status_code == 409 and f'router {made}' in answer.text
    with face.db.reader() as conn:
        found, = host_routers.load(conn, 'host1').routers
    assert (found.limits, found.dscp_mark) == ([['ingress', 1000, 0]], 46)
    text = linux_router.limited(found)
    name = frames.router_name(found.external)
    assert f'iifname "{name}" limit rate over 125000 bytes/second burst 100000 bytes drop' in text
    assert f'oifname "{name}" ip dscp set 46' in text and 'oifname "' + name + '" limit' not in text
    assert gateway('admin', made, qos_policy_id=hidden) == hidden
    gateway('demo', made, 403, qos_policy_id=None)
    assert gateway('admin', made, qos_policy_id=None) is None
    assert 'chain' not in linux_router.limited(host_state.Router('r', True, [], found.external, None, True, [], [], []))
