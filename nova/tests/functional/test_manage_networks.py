"""nova-manage network, fixed and floating beside a cloud that runs."""
import pytest

from nova.tests.functional import test_manage_commands as commands

cloud, nova_manage = commands.cloud, commands.nova_manage


def rows(answer):
    code, out, err = answer
    assert code == 0, err
    return [line.split() for line in out.splitlines()[1:]]


def test_networks(nova_manage):
    private, = rows(nova_manage('network', 'list'))
    assert private[1:3] == ['private', 'flat']
    assert nova_manage('network', 'delete', 'nowhere')[0] == 1
    assert nova_manage('network', 'modify', private[0])[0] == 1
    assert nova_manage('network', 'modify', private[0], '--project', 'p')[0] == 0
    assert rows(nova_manage('network', 'list'))[0][-1] == 'p'
    assert nova_manage('network', 'modify', private[0], '--disassociate-project')[0] == 0


def test_vlans(cloud, nova_manage):
    known = cloud.config.read_text()
    cloud.config.write_text(known + 'physical_networks = wire:br-wire\nvlan_ranges = wire:100:199\n')
    try:
        wanted = ('network', 'create', '--project', 'p9', '--label', 'v', '--fixed-range-v4', '10.20.0.0/22')
        assert nova_manage(*wanted, '--vlan-start', '100', '--num-networks', '3')[0] == 0
        made = sorted(row[1:5] for row in rows(nova_manage('network', 'list')) if row[-1] == 'p9')
        assert made == [['v_0', 'vlan', '100', '10.20.0.0/24'], ['v_1', 'vlan', '101', '10.20.1.0/24'],
                        ['v_2', 'vlan', '102', '10.20.2.0/24']]
        for more, said in ((('--vlan', '102'), 'is in use'), (('--vlan', '5', '--num-networks', '2'), 'Either --vlan'),
                           (('--vlan', '5', '--vlan-start', '5'), 'Either --vlan'),
                           (('--vlan-start', '101', '--num-networks', '999'), 'no room'),
                           (('--vlan', '5', '--physical-network', 'lost'), 'is none of'), (('--vlan', '4095'), '1 to'),
                           (('--vlan', '0'), 'from 1'), ((), 'need --vlan')):
            code, _out, err = nova_manage(*wanted, *more)
            assert code == 1 and said in err, (more, err)
        # the second one's VLAN is in use: the first one is not made, either
        assert nova_manage(*wanted, '--vlan-start', '99', '--num-networks', '2')[0] == 1
        assert len([row for row in rows(nova_manage('network', 'list')) if row[-1] == 'p9']) == 3
        assert nova_manage(*wanted, '--vlan', '99')[0] == 0
        assert nova_manage(*wanted[:2], '--vlan', '98')[0] == 1
    finally:
        cloud.config.write_text(known)


def test_fixed(cloud, nova_manage):
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
def test_bad_ranges(nova_manage, bad):
    assert nova_manage('floating', 'create', bad)[0] == 1


def test_floating(nova_manage):
    assert nova_manage('floating', 'create', '203.0.113.0/28', '--interface', 'none')[0] == 1
    assert nova_manage('floating', 'create', '203.0.113.0/28')[0] == 0
    assert nova_manage('floating', 'create', '203.0.113.0/28')[0] == 1
    assert nova_manage('floating', 'create', '203.0.113.16/28', '--pool', 'public')[0] == 0
    public, = [row for row in rows(nova_manage('network', 'list')) if row[1] == 'public']
    assert public[2:] == ['external', '203.0.113.0/28', '203.0.113.16/28'] or '203.0.113.0/28' in public
    assert rows(nova_manage('floating', 'list')) == []
    assert nova_manage('floating', 'delete', '203.0.113.0/28')[0] == 0
    assert nova_manage('floating', 'delete', '203.0.113.0/28')[0] == 1
