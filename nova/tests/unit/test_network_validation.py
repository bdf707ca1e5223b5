"""nova.network.api: what the compute API asks before it makes a server."""
import uuid

import pytest

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova import policies
from nova import policy
from nova.db.networks import networks
from nova.db.tables import network as t
from nova.network import api
from nova.tests.support import network_manager as unit


@pytest.fixture
def rig(tmp_path):
    rig = unit.Rig(tmp_path, network__default_cidr='10.44.0.0/24')
    rig.api = api.API(rig.db, rig.conf)
    rig.user = context.RequestContext(project_id=unit.PROJECT, user_id='u', overwrite=False)
    yield rig
    rig.db.dispose()


def test_valid_network_requests_pass(rig):
    for requested in (
        None,
        'auto',
        'none',
        [],
        [{'network_id': rig.network_id}],
        [{'network_id': rig.network_id, 'fixed_ip': '10.44.0.9'}],
        [{'port_id': rig.add_port(rig.network_id)}],
        [{'network_id': rig.add_network()}],
    ):
        rig.api.validate_networks(rig.user, requested)


def test_invalid_network_requests_are_refused(rig):
    taken = unit.address(rig.allocate()[0])
    for requested in ([{'network_id': str(uuid.uuid4())}], [{'port_id': str(uuid.uuid4())}], [{}],
                      [{'network_id': rig.add_network(project='p2')}],
                      [{'port_id': rig.add_port(rig.network_id, project='p2')}],
                      [{'network_id': rig.network_id, 'fixed_ip': taken}],
                      [{'network_id': rig.network_id, 'fixed_ip': '10.9.9.9'}]):
        with pytest.raises(exception.NetworkRequestInvalid):
            rig.api.validate_networks(rig.user, requested)
    for requested in (
        [{'network_id': rig.network_id, 'fixed_ip': '10.44.0.9'}],
        [{'port_id': rig.add_port(rig.network_id)}],
    ):
        with pytest.raises(exception.NetworkRequestInvalid):
            rig.api.validate_networks(rig.user, requested, count=2)


def test_port_of_another_server_is_refused(rig):
    port = rig.add_port(rig.network_id)
    rig.allocate(requested=[{'port_id': port}])
    with pytest.raises(exception.PortInUse):
        rig.api.validate_networks(rig.user, [{'port_id': port}])


def test_several_networks_without_a_default_are_ambiguous(rig):
    with rig.db.writer() as conn:
        networks.update(conn, t.networks, rig.network_id, {'is_default': False})
    rig.add_network()
    for requested in (None, 'auto'):
        with pytest.raises(exception.NetworkAmbiguous):
            rig.api.validate_networks(rig.user, requested)
    with rig.db.writer() as conn:
        conn.execute(t.networks.delete())
    rig.api.validate_networks(rig.user, None)
    with pytest.raises(exception.NetworkRequestInvalid):
        rig.api.validate_networks(rig.user, 'auto')


def test_security_groups_must_exist_in_the_project(rig):
    assert rig.api.check_security_groups(rig.user, ['default']) == ['default']
    group = rig.api.groups_of(rig.user).create(rig.user.project_id, 'mine', '')
    # a server that is asked for with a group's id shows the group's name
    assert rig.api.check_security_groups(rig.user, [group['id'], 'default', 'mine']) == ['mine', 'default']
    with pytest.raises(exception.SecurityGroupNotFound):
        rig.api.check_security_groups(rig.user, ['default', 'x'])
    instance = unit.make_instance()
    rig.allocate(instance)
    groups = rig.api.security_groups_for(rig.user, [instance.uuid, 'other'])
    assert [group['name'] for group in groups[instance.uuid]] == ['default'] and len(groups) == 1
    rules = rig.api.security_group_rules(rig.user, [groups[instance.uuid][0]['id']])
    assert len(rules[groups[instance.uuid][0]['id']]) == 4


def test_networks_and_ports_of_other_projects_are_hidden(rig):
    hidden = rig.add_network(project='p2')
    assert [row['id'] for row in rig.api.list_networks(rig.user)] == [rig.network_id]
    assert rig.api.show_network(rig.user, rig.network_id)['name'] == 'private'
    with pytest.raises(exception.NetworkNotFound):
        rig.api.show_network(rig.user, hidden)
    instance = unit.make_instance()
    vif, = rig.allocate(instance)
    port, = rig.api.ports_of(rig.user, instance.uuid)
    assert port['id'] == vif['id'] and port['fixed_ips'][0]['ip_address'] == unit.address(vif)


def test_a_rule_of_the_policy_file_admits_readers(rig, tmp_path):
    """The defaults need the role member to create groups; "@" does not."""
    path = tmp_path / 'network.yaml'
    path.write_text('"create_security_group": "@"\n')
    reader = context.RequestContext(project_id=unit.PROJECT, user_id='u', roles=['reader'], overwrite=False)
    by_default, by_file = (api.API(rig.db, rig.conf, policy.Policy(conf, policies.NETWORK)).groups_of(reader)
                           for conf in (None, nova_conf.new(files=[], network__policy_file=str(path))))
    with pytest.raises(exception.PolicyDenied, match='create_security_group'):
        by_default.create(unit.PROJECT, 'g', '')
    assert by_file.create(unit.PROJECT, 'g', '')['name'] == 'g'


def test_the_defaults_allow_members_what_they_did_without_rules(rig):
    """Ports of servers pass rules for the role service, so a member may choose an address in a shared network."""
    member = context.RequestContext(project_id=unit.PROJECT, user_id='u', roles=['member', 'reader'], overwrite=False)
    checked = api.API(rig.db, rig.conf, policy.Policy(None, policies.NETWORK))
    checked.validate_networks(member, [{'network_id': rig.network_id, 'fixed_ip': '10.44.0.9'}])
    checked.validate_networks(member, None)
    instance = unit.make_instance()
    rig.allocate(instance)
    checked.check_detach(member, unit.PROJECT, instance.uuid)
    checked.check_addresses(member, instance.uuid)
    assert len(checked.ports_of(member, instance.uuid)) == 1


def test_the_defaults_show_external_networks_of_other_projects(rig):
    outside = rig.add_network('other')
    with rig.db.writer() as conn:
        networks.update(conn, t.networks, outside, {'external': True})
    member = context.RequestContext(project_id=unit.PROJECT, user_id='u', roles=['member', 'reader'], overwrite=False)
    checked = api.API(rig.db, rig.conf, policy.Policy(None, policies.NETWORK))
    assert {row['id'] for row in checked.list_networks(member)} == {rig.network_id, outside}
    assert checked.show_network(member, outside)['id'] == outside
    assert checked.floating_ips_of(member).pools() == ['n']
