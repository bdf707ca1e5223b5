"""Each network command of the unmodified client: it does what it says, or the service says why not.

A row is a command and what is printed when it is refused; a row without that is done. A command that a newer client
brings, and that no row has, fails the test.
"""
import importlib.metadata

import pytest

from nova.tests import long_runs
from nova.tests.support import network_api as test_network_api

NOUNS = ('network', 'subnet', 'port', 'router', 'floating ip', 'security group', 'address group', 'address scope',
         'ip availability', 'default security group', 'local ip')
ABSENT = {'local ip': 'IPs are not supported', 'network meter': 'not supported',
          'network segment': 'has exactly one segment'}
ROWS = (
    ('network create outside --external --provider-network-type flat',),
    ('subnet create outer --network outside --subnet-range 203.0.113.0/24 --no-dhcp '
     '--allocation-pool start=203.0.113.100,end=203.0.113.199',),       # the addresses below are outside of it
    ('network create blue --mtu 1400 --description d --tag one',),
    ('network create red --provider-network-type vlan', 'physical_network|vlan_ranges'),
    ('network create red --provider-network-type vlan --provider-physical-network lost --provider-segment 7',
     'is not in'),
    ('network create red --qos-policy none', 'No QosPolicy|No Policy|QoS|policy'),
    ('network set blue --name azure --disable --tag two',),
    ('network unset azure --tag one',),
    ('network set azure --enable',),
    ('network list --tags two',),
    ('network show azure',),
    ('subnet create inner --network azure --subnet-range 10.1.0.0/24 --dns-nameserver 9.9.9.9 '
     '--allocation-pool start=10.1.0.100,end=10.1.0.199',),
    ('subnet create other --network azure --subnet-range 10.2.0.0/24 --service-type printer', 'not a device_owner'),
    ('subnet create other --network azure --subnet-range 10.2.0.0/24 --service-type compute:nova '
     '--allocation-pool start=10.2.0.100,end=10.2.0.199',),
    ('subnet unset other --service-type compute:nova',),
    ('subnet set inner --host-route destination=10.9.0.0/16,gateway=10.1.0.9 --tag x',),
    ('subnet unset inner --dns-nameserver 9.9.9.9 --tag x',),
    ('subnet list --network azure',),
    ('subnet show inner',),
    ('port create p --network azure --fixed-ip subnet=inner,ip-address=10.1.0.9 --tag t',),
    ('port create q --network azure --vnic-type direct', "one of 'normal'"),
    ('port set p --name pp --allowed-address ip-address=10.1.0.77',),
    ('port unset pp --allowed-address ip-address=10.1.0.77,mac-address={mac}',),
    ('port list --network azure',),
    ('port show pp',),
    ('router create gate --external-gateway outside',),
    ('router create far --distributed', 'distributed'),
    ('router create far --ha', "ha: one of"),
    ('router add subnet gate inner',),
    ('router remove subnet gate inner',),
    ('router add subnet gate inner',),
    ('port create rp --network azure --fixed-ip subnet=other,ip-address=10.2.0.9',),
    ('router add port gate rp',),
    ('router remove port gate rp',),
    ('router add route gate --route destination=10.8.0.0/16,gateway=10.1.0.8',),
    ('router remove route gate --route destination=10.8.0.0/16,gateway=10.1.0.8',),
    ('router set gate --description x --route destination=10.8.0.0/16,gateway=10.1.0.8',),
    ('router unset gate --route destination=10.8.0.0/16,gateway=10.1.0.8',),
    ('router add gateway gate outside', 'external-gateway-multihoming|not|gateway'),
    ('router remove gateway gate outside', 'external-gateway-multihoming|not|gateway'),
    ('router list',),
    ('router show gate',),
    ('router set gate --external-gateway outside --qos-policy none', 'No QosPolicy|No Policy|QoS|policy'),
    ('floating ip create outside --floating-ip-address 203.0.113.50',),
    ('floating ip create outside --qos-policy x', 'policy|Policy'),
    ('floating ip set 203.0.113.50 --port pp',),
    ('floating ip list',),
    ('floating ip show 203.0.113.50',),
    ('floating ip unset 203.0.113.50 --port',),
    ('floating ip port forwarding create 203.0.113.50 --port pp --internal-ip-address 10.1.0.9 '
     '--internal-protocol-port 22 --external-protocol-port 2222 --protocol tcp',),
    ('floating ip port forwarding list 203.0.113.50',),
    ('floating ip port forwarding show 203.0.113.50 {forwarding}',),
    ('floating ip port forwarding set 203.0.113.50 {forwarding} --external-protocol-port 2223',),
    ('floating ip port forwarding delete 203.0.113.50 {forwarding}',),
    ('floating ip delete 203.0.113.50',),
    ('security group create web --tag w',),
    ('security group set web --description d --name net',),
    ('security group unset net --tag w',),
    ('security group show net',),
    ('security group list',),
    ('security group rule create net --protocol tcp --dst-port 80',),
    ('security group rule list net',),
    ('security group rule show {rule}',),
    ('security group rule delete {rule}',),
    ('security group delete net',),
    ('network rbac create --type network --action access_as_shared --target-all-projects azure',),
    ('network rbac create --type security_group --action access_as_shared --target-all-projects default',),
    ('network rbac list',),
    ('network rbac show {rbac}',),
    ('network rbac delete {rbac}',),
    ('ip availability list',),
    ('ip availability show azure',),
    ('network agent list',),
    ('network agent show {agent}',),
    ('network agent set {agent} --disable --description d',),
    ('network agent set {agent} --enable',),
    ('network agent remove router --l3 {agent} gate',),
    ('network agent add router --l3 {agent} gate',),
    ('network agent list --router gate',),
    ('network agent list --agent-type l3',),
    ('router list --agent {agent}',),
    ('network agent delete {agent}', 'manages agents'),
    ('network l3 conntrack helper create gate --helper tftp --protocol udp --port 69',),
    ('network l3 conntrack helper create gate --helper tftp --protocol udp --port 69', 'already'),
    ('network l3 conntrack helper create gate --helper snmp --protocol udp --port 161', "one of 'ftp'"),
    ('network l3 conntrack helper list gate',),
    ('network service provider list',),
    ('network flavor list',), ('network flavor profile list',), ('network meter list',), ('network meter rule list',),
    ('network segment list',), ('network segment range list', 'not supported'), ('network trunk list',),
    ('subnet pool create --pool-prefix 10.64.0.0/16 --default-prefix-length 26 --tag a pool',),
    ('subnet pool create --pool-prefix 10.64.0.0/16 --address-scope none p', 'No AddressScope|No Address'),
    ('address scope create s --ip-version 4',),
    ('address scope set s --name t',),
    ('address scope show t',),
    ('address scope list',),
    ('subnet pool create --pool-prefix 10.66.0.0/16 --address-scope t scoped',),
    ('address scope delete t', 'still has subnet pools'),
    ('subnet pool delete scoped',),
    ('address scope delete t',),
    ('subnet pool set pool --pool-prefix 10.65.0.0/16 --default --default-quota 128 --tag b',),
    ('subnet pool unset pool --tag a',),
    ('subnet pool show pool',),
    ('subnet pool list --default',),
    ('subnet create cut --network azure --subnet-pool pool --prefix-length 27',),
    ('subnet create cut2 --network azure --use-default-subnet-pool',),
    ('subnet create cut3 --network azure --subnet-pool pool --prefix-length 25', 'is exceeded'),
    ('subnet create cut3 --network azure --use-prefix-delegation', 'not supported'),
    ('subnet pool delete pool', 'still has subnets'),
    ('subnet delete cut cut2',),
    ('subnet pool delete pool',),
    ('address group list',), ('local ip list',), ('router ndp proxy list',),
    ('default security group rule list',),
    ('network flavor create --service-type L3_ROUTER_NAT --description d f',),
    ('network flavor set f --name ff --disable',),
    ('network flavor show ff',),
    ('network flavor delete ff',),
    ('network flavor profile create --driver d', "one of '', 'nova-network'"),
    ('network flavor profile create --metainfo m --description d',),
    ('network meter create m', ABSENT['network meter']),
    ('network segment create --network azure --network-type vlan s', ABSENT['network segment']),
    ('network segment range create --shared --network-type vxlan --minimum 1 --maximum 9 s',
     'not supported'),
    ('port create carried --network azure',),
    ('network trunk create --parent-port pp t',),
    ('network trunk set t --name tt --subport port=carried,segmentation-type=vlan,segmentation-id=5',),
    ('network subport list --trunk tt',),
    ('network trunk subport remove tt carried',),
    ('network trunk subport add tt carried --segmentation-type vlan --segmentation-id 6',),
    ('network trunk subport list tt',),
    ('network trunk show tt',),
    ('port delete carried', 'is a subport'),
    ('network trunk unset tt --subport carried',),
    ('network trunk delete tt',),
    ('port delete carried',),
    ('address group create g --address 10.0.0.0/8',),
    ('address group set g --name gg --address 192.0.2.0/24',),
    ('address group unset gg --address 10.0.0.0/8',),
    ('address group show gg',),
    ('address group delete gg',),
    ('local ip create', ABSENT['local ip']),
    ('default security group rule create --protocol tcp',),
    ('router ndp proxy create gate --port pp', 'NDP'),
    ('port delete pp',),
    ('router remove subnet gate inner',),
    ('router delete gate',),
    ('subnet delete inner',),
    ('network delete azure',),
)
# In short runs: networks, subnets, ports and a router. What there is besides is asked of the API itself by
# test_network_*.py.
BEGINNING = [row[0] for row in ROWS].index('router remove port gate rp') + 1
# what needs an identity service, and what sends something whose answer the client does not look at
BY_HAND = ('network rbac set', 'network agent add ', 'network agent remove ', 'network auto allocated topology ',
           'network onboard subnet', 'subnet pool add network')
# of things of which there can be none, or which test_network_qos.py and test_network_flavors.py walk through
NEVER = ('network qos ', 'network flavor ', 'network meter ', 'network segment ',
         'local ip ', 'router ndp proxy ', 'default security group rule ',
         'network l3 conntrack helper ', 'security group default statefulness ',
         'network agent router set')


def commands():
    """The client's commands of these nouns."""
    names = (point.name.replace('_', ' ') for group in ('openstack.network.v2',)
             for point in importlib.metadata.entry_points(group=group))
    return sorted(name for name in names if name.startswith(tuple(noun + ' ' for noun in NOUNS)))


@pytest.fixture(scope='module')
def face(tmp_path_factory):
    rig = test_network_api.Face(tmp_path_factory.mktemp('face'))
    rig.manager.start()
    yield rig
    rig.close()


def test_every_command_has_a_row():
    known = [row[0] for row in ROWS]
    missing = [name for name in commands() if not name.startswith(NEVER + BY_HAND)
               and not any(words == name or words.startswith(name + ' ') for words in known)]
    assert missing == []


@pytest.mark.timeout(600)              # a hundred runs of the client, one after the other
def test_openstackclient_network_commands_work(face):
    """In their order, because they build on each other."""
    wrong = []
    for words, *refused in ROWS if long_runs.LONG else ROWS[:BEGINNING]:
        found = face.cli(*words.format_map(Found(face)).split(), user='admin', check=False)
        code, text = found
        expected = not refused and code == 0 or refused and code and any(
            word in text for word in refused[0].split('|'))
        if not expected or 'Traceback' in text or 'HttpException: 50' in text:
            wrong.append(f'{words}: {code} {text.strip()[-300:]}')
    assert not wrong, '\n'.join(wrong)


def test_unsupported_network_calls_return_400_with_the_reason(face):
    for method, path, body in (('DELETE', 'agents/x/dhcp-networks/y', None), ('DELETE', 'agents/x', None),
                               ('POST', 'agents/x/dhcp-networks', {'network_id': 'x'}),
                               ('PUT', 'subnetpools/x/onboard_network_subnets', {'network_id': 'x'})):
        answer = face('admin', method, path, body)
        assert answer.status_code == 400, path
        assert 'support' in answer.text or 'manages agents' in answer.text, answer.text


class Found(dict):
    """Ids that the service gave."""

    def __init__(self, face):
        self._face = face

    def __missing__(self, name):
        path, key = {'rbac': ('rbac-policies', 'rbac_policies'), 'agent': ('agents', 'agents'),
                     'rule': ('security-group-rules?protocol=tcp', 'security_group_rules')}.get(name, (None, None))
        if name == 'mac':
            return self._face('admin', 'GET', 'ports?name=pp').json()['ports'][0]['mac_address']
        if name == 'forwarding':
            return next((each['id'] for floating in self._face('admin', 'GET', 'floatingips').json()['floatingips']
                         for each in floating['port_forwardings']), 'none')
        return next((row['id'] for row in self._face('admin', 'GET', path).json()[key]), 'none')
