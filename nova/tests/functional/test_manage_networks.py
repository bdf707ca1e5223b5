"""nova-manage network, fixed and floating beside a cloud that runs."""
import json

import pytest

from nova.db.networks import networks as db_networks
from nova.db.tables import network as t
from nova.tests.support import manage_commands as commands

cloud, nova_manage = commands.cloud, commands.nova_manage


def rows(answer):
    code, out, err = answer
    assert code == 0, err
    return [line.split() for line in out.splitlines()[1:]]


def test_network_commands_create_and_delete_networks(cloud, nova_manage):
    demo = cloud.client().project_id
    private, = rows(nova_manage('network', 'list'))
    assert private[1:3] == ['private', 'flat']
    assert nova_manage('network', 'delete', 'nowhere')[0] == 1
    assert nova_manage('network', 'modify', private[0])[0] == 1
    assert nova_manage('network', 'modify', private[0], '--project', 'demo')[0] == 0
    assert rows(nova_manage('network', 'list'))[0][-1] == demo
    assert nova_manage('network', 'modify', private[0], '--disassociate-project')[0] == 0
    # any text was taken for the id of a project: the network was nobody's
    before = rows(nova_manage('network', 'list'))
    for words in (('modify', private[0]), ('create', '--label', 'n', '--fixed-range-v4', '10.20.0.0/24')):
        code, _out, err = nova_manage('network', *words, '--project', 'nobody')
        assert code == 1 and 'nobody' in err
    assert rows(nova_manage('network', 'list')) == before


HOSTILE = '\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202egnp.exe\u200b\u2066\u2028'


def test_escape_sequences_in_user_given_names_are_escaped_on_the_terminal(cloud, nova_manage):
    """A network's name with an escape sequence retitled the operator's terminal."""
    demo = cloud.client()
    made = demo.post('/network/v2.0/networks', {'network': {'name': '\u202egnp.exe'}})        # these are taken
    assert made.status_code == 201, made.text
    with cloud.api_db.writer() as conn:                                      # others are of before they were refused
        db_networks.update(conn, t.networks, made.json()['network']['id'], {'name': HOSTILE})
    outputs = [nova_manage(*words) for words in (
        ('network', 'list'), ('project', 'list'), ('network', 'delete', HOSTILE), ('project', 'quota', HOSTILE))]
    for code, out, err in outputs:
        text = out + err
        assert not [char for char in text if not char.isprintable() and char not in '\n\t'], (code, text)
    shown = next(line for line in outputs[0][1].splitlines() if 'gnp.exe' in line)
    assert '\\x1b]0;owned\\x07' in shown and '\\u202egnp.exe' in shown and '\\x0d' in shown
    assert demo.delete(f'/network/v2.0/networks/{made.json()["network"]["id"]}').status_code == 204


def test_network_create_uses_configured_vlans(cloud, nova_manage):
    known = cloud.config.read_text()
    cloud.config.write_text(known + 'physical_networks = wire:br-wire\nvlan_ranges = wire:100:199\n')
    try:
        wanted = ('network', 'create', '--project', cloud.boss.project_id, '--label', 'v', '--fixed-range-v4',
                  '10.20.0.0/22')
        assert nova_manage(*wanted, '--vlan-start', '100', '--num-networks', '3')[0] == 0
        made = sorted(row[1:5] for row in rows(nova_manage('network', 'list')) if row[-1] == cloud.boss.project_id)
        assert made == [['v_0', 'vlan', '100', '10.20.0.0/24'], ['v_1', 'vlan', '101', '10.20.1.0/24'],
                        ['v_2', 'vlan', '102', '10.20.2.0/24']]
        for more, said in ((('--vlan', '102'), 'is in use'), (('--vlan', '5', '--num-networks', '2'), 'Either --vlan'),
                           (('--vlan', '5', '--vlan-start', '5'), 'Either --vlan'),
                           (('--vlan-start', '101', '--num-networks', '999'), 'too small'),
                           (('--vlan', '5', '--physical-network', 'lost'), 'is not in'), (('--vlan', '4095'), '1 to'),
                           (('--vlan', '0'), 'from 1')):
            code, _out, err = nova_manage(*wanted, *more)
            assert code == 1 and said in err, (more, err)
        # the second one's VLAN is in use: the first one is not made, either
        assert nova_manage(*wanted, '--vlan-start', '99', '--num-networks', '2')[0] == 1
        assert len([row for row in rows(nova_manage('network', 'list')) if row[-1] == cloud.boss.project_id]) == 3
        assert nova_manage(*wanted, '--vlan', '99')[0] == 0
        assert nova_manage(*wanted[:2], '--vlan', '98')[0] == 1
    finally:
        cloud.config.write_text(known)


def _subnets(cloud, label):
    """{name of a network: [its subnets]} as the Network API shows them."""
    networks = {row['id']: row['name'] for row in cloud.boss.get('/network/v2.0/networks').json()['networks']}
    found = {}
    for row in cloud.boss.get('/network/v2.0/subnets').json()['subnets']:
        if networks[row['network_id']].startswith(label):
            found.setdefault(networks[row['network_id']], []).append(row)
    return {name: sorted(rows, key=lambda row: row['ip_version']) for name, rows in found.items()}


def test_network_create_accepts_all_options(cloud, nova_manage):
    assert nova_manage('network', 'create', '--label', 'wide', '--fixed-range-v4', '10.30.0.0/24', '--fixed-range-v6',
                       'fd00:30::/64', '--gateway', '10.30.0.9', '--gateway-v6', 'fd00:30::9', '--dns1', '192.0.2.1',
                       '--dns2', '192.0.2.2', '--fixed-cidr', '10.30.0.64/26')[0] == 0
    four, six = _subnets(cloud, 'wide')['wide']
    assert (four['gateway_ip'], four['dns_nameservers']) == ('10.30.0.9', ['192.0.2.1', '192.0.2.2'])
    assert four['allocation_pools'] == [{'start': '10.30.0.64', 'end': '10.30.0.127'}]
    assert (six['gateway_ip'], six['cidr'], six['ipv6_address_mode']) == ('fd00:30::9', 'fd00:30::/64', 'slaac')
    wide, = [row for row in rows(nova_manage('network', 'list')) if row[1] == 'wide']
    assert wide[2] == 'vxlan' and len(wide) == 6                         # no project: it is for all
    assert cloud.client().get(f'/network/v2.0/networks/{wide[0]}').json()['network']['shared']
    assert nova_manage('network', 'create', '--label', 'some', '--fixed-range-v4', '10.31.0.0/16', '--network-size',
                       '64', '--num-networks', '3', '--fixed-range-v6', 'fd00:31::/62', '--project', 'demo')[0] == 0
    assert {name: [row['cidr'] for row in found] for name, found in _subnets(cloud, 'some').items()} == {
        'some_0': ['10.31.0.0/26', 'fd00:31::/64'], 'some_1': ['10.31.0.64/26', 'fd00:31:0:1::/64'],
        'some_2': ['10.31.0.128/26', 'fd00:31:0:2::/64']}
    code, out, _err = nova_manage('network', 'create', '--label', 'front', '--fixed-range-v4', '10.32.0.0/24',
                                  '--fixed-cidr', '10.32.0.0/25', '--format', 'json')
    front, = json.loads(out)
    assert code == 0 and front == {'id': front['id'], 'name': 'front', 'ranges': '10.32.0.0/24',
                                   'project': 'all projects'}
    assert _subnets(cloud, 'front')['front'][0]['allocation_pools'] == [{'start': '10.32.0.2', 'end': '10.32.0.127'}]
    for row in rows(nova_manage('network', 'list')):
        if row[1] in ('wide', 'front') or row[1].startswith('some_'):
            assert nova_manage('network', 'delete', row[0])[0] == 0


NEW = ('--label', 'n', '--fixed-range-v4', '10.33.0.0/24')


@pytest.mark.parametrize(('words', 'said'), [
    *(((*NEW, f'--{name}', 'x'), f'{name.replace("-", "_")} is not supported: ') for name in (
        'bridge', 'bridge-interface', 'multi-host', 'uuid', 'priority', 'vpn')),
    ((), 'needs --label and --fixed-range-v4 or --fixed-range-v6. Example: nova-manage network create --label'),
    (('--label', 'n'), 'needs --fixed-range-v4 or'), (('--fixed-range-v4', '10.33.0.0/24'), 'needs --label.'),
    ((*NEW, '--network-size', '48'), 'power of two'), ((*NEW, '--network-size', '512'), 'too small'),
    ((*NEW, '--network-size', '64', '--num-networks', '5'), 'too small'), ((*NEW, '--num-networks', '0'), '1 to 4096'),
    ((*NEW, '--num-networks', '2', '--gateway', '10.33.0.1'), 'allows only one network'),
    ((*NEW, '--fixed-cidr', '10.34.0.0/25'), 'a part of'), ((*NEW, '--gateway', '10.34.0.1'), ''),
    ((*NEW, '--dns1', 'x'), ''), (('--label', 'n', '--fixed-range-v6', 'fd00::/65'), 'too small'),
    (('--label', 'n', '--fixed-range-v6', 'fd00::/64', '--dns1', '192.0.2.1'), 'need --fixed-range-v4'),
    (('--label', 'n', '--fixed-range-v4', 'fd00::/64'), ''),
    ((*NEW, '--fixed-range-v6', 'fd00:1::/63', '--num-networks', '4'), 'too small'),
    (('--label', 'n', '--fixed-range-v6', 'fd00::%eth0/64'), ''), ((*NEW, '--num-networks', '9999'), '1 to 4096')])
def test_invalid_network_options_are_refused(nova_manage, words, said):
    code, out, err = nova_manage('network', 'create', *words)
    assert code == 1 and said in err and not out, (out, err)
    assert not [row for row in rows(nova_manage('network', 'list')) if row[1] in ('n', 'n_0')]


def test_the_default_network_exists_once(cloud, nova_manage):
    default, = [row['id'] for row in cloud.boss.get('/network/v2.0/networks').json()['networks'] if row['is_default']]
    code, out, _err = nova_manage('network', 'create', '--default')
    assert (code, out) == (0, f'Network {default} is the default network. It existed before.\n')
    code, _out, err = nova_manage('network', 'create', '--default', '--label', 'n')
    assert code == 1 and '--default allows no other option' in err


def test_fixed_addresses_are_reserved_once(cloud, nova_manage):
    assert nova_manage('fixed', 'reserve', '10.44.0.77')[0] == 0
    assert nova_manage('fixed', 'reserve', '10.44.0.77')[0] == 1            # it is reserved already
    assert [row[0] for row in rows(nova_manage('fixed', 'list')) if 'reserved' in row] == ['10.44.0.77']
    network = rows(nova_manage('network', 'list'))[0][0]
    refused = cloud.boss.post('/servers', {'server': {
        'name': 's', 'imageRef': cloud.image, 'flavorRef': '1', 'networks': [
            {'uuid': network, 'fixed_ip': '10.44.0.77'}]}})
    assert refused.status_code == 400 and 'already in use' in refused.text
    assert nova_manage('fixed', 'unreserve', '10.44.0.77')[0] == 0
    assert nova_manage('fixed', 'unreserve', '10.44.0.77')[0] == 1
    for address in ('x', '192.0.2.1', '10.44.0.1'):
        assert nova_manage('fixed', 'reserve', address)[0] == 1


@pytest.mark.parametrize('bad', ['x', '10.44.0.0/25', '203.0.113.0/31'])
def test_invalid_floating_range_is_refused(nova_manage, bad):
    assert nova_manage('floating', 'create', bad)[0] == 1


def test_floating_ranges_are_created_and_deleted(nova_manage):
    assert nova_manage('floating', 'create', '203.0.113.0/28', '--interface', 'none')[0] == 1
    assert nova_manage('floating', 'create', '203.0.113.0/28')[0] == 0
    assert nova_manage('floating', 'create', '203.0.113.0/28')[0] == 1
    assert nova_manage('floating', 'create', '203.0.113.16/28', '--pool', 'public')[0] == 0
    public, = [row for row in rows(nova_manage('network', 'list')) if row[1] == 'public']
    assert public[2:] == ['external', '203.0.113.0/28', '203.0.113.16/28'] or '203.0.113.0/28' in public
    assert rows(nova_manage('floating', 'list')) == []
    assert nova_manage('floating', 'delete', '203.0.113.0/28')[0] == 0
    assert nova_manage('floating', 'delete', '203.0.113.0/28')[0] == 1
