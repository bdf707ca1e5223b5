"""The documents that a guest reads of itself, and who is allowed to read them."""
import base64
import hashlib
import hmac
import io
import json
import time
import uuid

import pytest
import webob
import yaml

from nova import conf as nova_conf
from nova import exception
from nova import utils
from nova.api.metadata import app
from nova.api.metadata import tokens
from nova.cloud import assembly
from nova.cmd import api_metadata
from nova.db import schema as migration
from nova.db.networks import ports as db_ports
from nova.db.servers import instances
from nova.db.services import metadata_keys
from nova.db.tables import network as tables_network
from nova.hardware import guest_request
from nova.network import relay
from nova.objects import device_addresses
from nova.objects import numa
from nova.runtime import health
from nova.tests.support.metadata import KEY
from nova.tests.support.metadata import NOW
from nova.tests.support.metadata import interface
from nova.tests.support.metadata import make_instance
from nova.tests.support.metadata import network_info
from nova.tests.support.metadata import served
from nova.tests.support.metadata import subnet
from nova.virt import metadata
from nova.virt.libvirt.domain import addresses


def test_a_guest_is_told_which_of_its_vcpus_are_dedicated():
    asked = {'vcpus': 4, 'memory_mb': 64, 'extra_specs': {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '1,3'}}
    topology = numa.text_of_guest(guest_request.topology(asked, {}))
    assert metadata.meta_data(make_instance(numa_topology=topology))['dedicated_cpus'] == [1, 3]
    assert metadata.meta_data(make_instance())['dedicated_cpus'] == []


def test_a_guest_finds_its_tagged_disks():
    """Ports alone were named."""
    devices = [{'tag': 'data', 'disk_bus': None, 'device_name': '/dev/vdb', 'volume_id': 'v1'},
               {'tag': None, 'disk_bus': 'scsi', 'device_name': '/dev/sda', 'volume_id': None},
               {'tag': 'scratch', 'disk_bus': 'scsi', 'device_name': None, 'volume_id': None}]
    drive = metadata.files(make_instance(), network_info(), devices=devices)
    assert json.loads(drive['openstack/latest/meta_data.json'])['devices'][1:] == [
        {'type': 'disk', 'bus': 'none', 'address': 'none', 'path': '/dev/vdb', 'serial': 'v1', 'tags': ['data']},
        {'type': 'disk', 'bus': 'scsi', 'address': 'none', 'tags': ['scratch']}]


def test_a_guest_is_told_where_its_tagged_devices_are():
    """Bus and address were 'none'."""
    known = {'fa:16:3e:00:00:01': ['pci', '0000:00:03.0'], 'v1': ['scsi', '0:0:0:1'],
             '/dev/vdc': ['pci', '0000:00:07.0']}
    devices = [{'tag': 'data', 'disk_bus': None, 'device_name': '/dev/vdb', 'volume_id': 'v1'},
               {'tag': 'scratch', 'disk_bus': None, 'device_name': '/dev/vdc', 'volume_id': None},
               {'tag': 'new', 'disk_bus': 'usb', 'device_name': '/dev/vdd', 'volume_id': None}]
    vifs = [{**network_info()[0], 'address': 'fa:16:3e:00:00:01', 'tag': 'front'}]
    places = [('pci', '0000:00:03.0'), ('scsi', '0:0:0:1'), ('pci', '0000:00:07.0'), ('usb', 'none')]
    found = metadata.files(make_instance(system_metadata={device_addresses.KEY: known}), vifs, devices=devices)
    document = json.loads(found['openstack/latest/meta_data.json'])
    assert [(each['bus'], each['address']) for each in document['devices']] == places
    # the config drive of a guest that is made now
    drive = metadata.files(make_instance(), vifs, devices=devices)
    changed = metadata.place_devices(drive, lambda: known)
    assert changed.keys() == {path for path in drive if path.endswith('/meta_data.json')}
    for path, data in changed.items():
        before, after = json.loads(drive[path]), json.loads(data)
        assert [(each['bus'], each['address']) for each in after.pop('devices')] == places
        assert [each['address'] for each in before.pop('devices')] == ['none'] * 4 and before == after


def test_no_addresses_are_looked_for_without_tagged_devices():
    drive = metadata.files(make_instance(), [{**network_info()[0], 'tag': None}])
    assert metadata.place_devices(drive, lambda: pytest.fail('a guest is defined for nothing')) == {}


def test_device_addresses_are_read_from_the_domain_xml():
    text = """<domain><devices>
      <controller type='usb'><address type='pci' domain='0x0000' bus='0x00' slot='0x01' function='0x2'/></controller>
      <disk><target dev='vda' bus='virtio'/>
        <address type='pci' domain='0x0000' bus='0x00' slot='0x1f' function='0x1'/></disk>
      <disk><serial>v1</serial><target dev='sda' bus='scsi'/>
        <address type='drive' controller='1' bus='0' target='2' unit='3'/></disk>
      <disk><target dev='hdb' bus='ide'/><address type='drive' controller='0' bus='1' target='0' unit='1'/></disk>
      <disk><target dev='sdb' bus='usb'/><address type='usb' bus='0' port='2.1'/></disk>
      <disk><target dev='sdc' bus='sata'/><address type='drive' controller='0' bus='0' target='0' unit='4'/></disk>
      <disk><target dev='fda' bus='fdc'/><address type='drive' controller='0' bus='0' target='0' unit='0'/></disk>
      <disk><target dev='vdx' bus='virtio'/></disk>
      <interface type='hostdev'><mac address='FA:16:3E:00:00:01'/>
        <source><address type='pci' domain='0x0000' bus='0x3b' slot='0x02' function='0x1'/></source>
        <address type='pci' domain='0x0000' bus='0x02' slot='0x00' function='0x0'/></interface>
    </devices></domain>"""
    found = addresses.read(text)
    assert found == {'/dev/vda': ['pci', '0000:00:1f.1'], '/dev/sda': ['scsi', '1:0:2:3'], 'v1': ['scsi', '1:0:2:3'],
                     '/dev/hdb': ['ide', '1:1'], '/dev/sdb': ['usb', '0:2.1'], '/dev/sdc': ['sata', '0:0:0:4'],
                     'fa:16:3e:00:00:01': ['pci', '0000:02:00.0']}
    assert device_addresses.is_record(found) and device_addresses.read({device_addresses.KEY: found}) == found


@pytest.mark.parametrize('values', [
    [], {'': ['pci', '0000:00:01.0']}, {'a' * 65: ['pci', '0000:00:01.0']}, {'v1': ['isa', '1']}, {'v1': ['pci']},
    {'v1': ['pci', '<b>']}, {'v1': 'pci'}, {'v1': ['pci', None]}, {'v1': [[], 'x']}, {'v1': [{}, '1']},
    {f'v{number}': ['usb', '1'] for number in range(257)}])
def test_invalid_record_of_device_addresses_is_ignored(values):
    assert not device_addresses.is_record(values) and device_addresses.read({device_addresses.KEY: values}) == {}


def test_the_block_device_mapping_of_ec2_names_every_disk():
    def row(source, destination, name, **more):
        return {'source_type': source, 'destination_type': destination, 'device_name': name, 'guest_format': None,
                'boot_index': -1, **more}
    rows = [row('image', 'local', '/dev/vda', boot_index=0), row('blank', 'local', '/dev/vdb'),
            row('blank', 'local', '/dev/vdd', guest_format='ext4'),
            row('blank', 'local', '/dev/vdc', guest_format='swap'),
            row('volume', 'volume', '/dev/vdaa', boot_index=None), row('snapshot', 'volume', '/dev/vdz'),
            row('volume', 'volume', None)]
    server = make_instance(ephemeral_gb=2, flavor={'name': 'm1', 'swap': 64})
    expected = {'ami': 'vda', 'root': '/dev/vda', 'ephemeral0': '/dev/vdb', 'ephemeral1': '/dev/vdd',
                'swap': '/dev/vdc', 'ebs0': '/dev/vdz', 'ebs1': '/dev/vdaa'}
    assert metadata.block_device_mapping(server, rows) == expected
    assert metadata.ec2_tree(server, devices=rows)['meta-data']['block-device-mapping'] == expected
    drive = metadata.files(server, [], devices=iter(rows))
    assert json.loads(drive['ec2/latest/meta-data.json'])['block-device-mapping'] == expected
    # a server that a resize has given local disks, and one that a resize has taken them from
    assert metadata.block_device_mapping(server, ()) == {
        'ami': 'vda', 'root': '/dev/vda', 'ephemeral0': '/dev/vdb', 'swap': '/dev/vdc'}
    assert metadata.block_device_mapping(make_instance(), rows[:4]) == {'ami': 'vda', 'root': '/dev/vda'}
    root = row('volume', 'volume', '/dev/sda', boot_index=0)
    assert metadata.block_device_mapping(make_instance(root_device_name='/dev/sda'), [root]) == {
        'ami': 'sda', 'root': '/dev/sda'}


@pytest.mark.parametrize('key, kind', [(KEY, 'ssh'), ('-----BEGIN CERTIFICATE-----\nMIIB\n', 'x509')])
def test_a_key_pair_has_its_type(key, kind):
    server = make_instance(key_data=key)
    assert metadata.meta_data(server)['keys'] == [{'name': 'mykey', 'type': kind, 'data': key}]
    assert metadata.meta_data(server)['public_keys'] == {'mykey': key}
    assert ('public-keys' in metadata.ec2_tree(server)['meta-data']) == (kind == 'ssh')


def test_a_guest_is_told_its_public_address_and_its_interfaces():
    """Its public address was an empty text, whatever address it had."""
    port, subnet, instance = (str(uuid.uuid4()) for _ in range(3))
    vif = {**network_info()[0], 'id': port}
    vif['network']['subnets'][0] |= {'id': subnet, 'ips': [
        {'address': '10.0.0.5', 'type': 'fixed', 'floating_ips': [{'address': '203.0.113.7'}]}]}
    tree = metadata.ec2_tree(make_instance(uuid=instance, network_info=[vif]))['meta-data']
    assert (tree['public-ipv4'], tree['mac']) == ('203.0.113.7', vif['address'])
    found = tree['network']['interfaces']['macs'][vif['address']]
    assert found['interface-id'] == utils.ec2_id(port, 'eni') and found['subnet-id'] == utils.ec2_id(subnet, 'subnet')
    assert found['public-ipv4s'] == '203.0.113.7' and found['ipv4-associations'] == {'203.0.113.7': '10.0.0.5'}
    assert (found['device-number'], found['subnet-ipv4-cidr-block']) == ('0', '10.0.0.0/24')
    bare = metadata.ec2_tree(make_instance())['meta-data']
    assert bare['public-ipv4'] == '' and 'public-ipv4s' not in bare['network']['interfaces']['macs'][vif['address']]
    assert 'mac' not in metadata.ec2_tree(make_instance(network_info=[]))['meta-data']


def test_config_drive_holds_both_formats_and_the_personality():
    instance = make_instance(network_info=[])
    found = metadata.files(instance, network_info(), [('/etc/motd', b'hello')], 'secret', domain='example.org')
    document = json.loads(found['openstack/latest/meta_data.json'])
    assert document['uuid'] == instance.uuid
    assert document['hostname'] == 'web-server.example.org'
    assert document['meta'] == {'role': 'web'}
    assert document['admin_pass'] == 'secret'
    assert document['public_keys'] == {'mykey': KEY}
    assert document['files'] == [{'path': '/etc/motd', 'content_path': '/content/0000'}]
    assert document['devices'][0]['tags'] == ['lan']
    assert found['openstack/content/0000'] == b'hello'
    assert found['openstack/latest/user_data'] == b'#!/bin/sh\necho hi\n'
    assert json.loads(found['ec2/latest/meta-data.json'])['local-ipv4'] == '10.0.0.5'
    network = json.loads(found['openstack/latest/network_data.json'])
    assert network['links'][0]['ethernet_mac_address'] == 'fa:16:3e:00:00:01'
    assert network['networks'][0]['ip_address'] == '10.0.0.5'
    assert network['services'] == [{'type': 'dns', 'address': '10.0.0.1'}]
    assert instance.network_info == []      # the caller's instance is left as it was


@pytest.mark.parametrize('mode', ['slaac', 'dhcpv6-stateless', 'dhcpv6-stateful'])
def test_network_data_names_how_ipv6_addresses_are_assigned(mode):
    """All of them were ipv6_dhcp: guests waited for a DHCPv6 server that does not exist."""
    document = metadata.network_data([interface(subnet(4, dhcp=True), subnet(6, mode))])
    assert [each['type'] for each in document['networks']] == ['ipv4_dhcp', f'ipv6_{mode}']


def test_network_data_has_static_ipv6_addresses_where_none_are_served():
    static, = metadata.network_data([interface(subnet(6))])['networks']
    assert (static['type'], static['ip_address'], static['routes']) == ('ipv6', 'fd00::5', [
        {'network': '::', 'netmask': '::', 'gateway': 'fd00::1'}])


def test_network_data_has_the_mtu_of_static_networks_alone():
    """A guest kept the value of its config drive after that of its network had changed."""
    served, static = (metadata.network_data([interface(subnet(4, dhcp=dhcp))])['links'][0]['mtu']
                      for dhcp in (True, False))
    assert (served, static) == (None, 1400)


def test_network_data_has_the_search_domain_of_each_network():
    document = metadata.network_data([interface(subnet(4), domain='blue.example'),
                                      interface(subnet(4, dhcp=True), number=1)], 'cloud.test')
    assert [each['dns_search'] for each in document['networks']] == [['blue.example'], ['cloud.test']]
    assert document['networks'][0]['dns_nameservers'] == ['10.0.0.2']
    assert 'dns_search' not in metadata.network_data([interface(subnet(4))])['networks'][0]


def test_network_data_has_the_vlans_of_a_trunk():
    carried = {**interface(subnet(4, dhcp=True), number=1), 'vlan': 100}
    document = metadata.network_data([{**interface(subnet(4)), 'subports': [carried]}, interface(subnet(4), number=2)])
    assert [(each['id'], each['type']) for each in document['links']] == [
        ('tapport-0', 'bridge'), ('tapport-1', 'vlan'), ('tapport-2', 'bridge')]
    link = document['links'][1]
    assert (link['vlan_link'], link['vlan_id'], link['vlan_mac_address']) == ('tapport-0', 100, 'fa:16:3e:00:00:01')
    assert [(each['link'], each['type']) for each in document['networks']] == [
        ('tapport-0', 'ipv4'), ('tapport-1', 'ipv4_dhcp'), ('tapport-2', 'ipv4')]


def test_default_routes_of_several_interfaces_differ_in_metric():
    """They were equal: the kernel took whichever came first."""
    document = metadata.network_data([interface(subnet(4), subnet(6)), interface(subnet(4), subnet(6), number=1),
                                      interface(subnet(4, dhcp=True), number=2)])
    defaults = [(each['link'], route.get('metric')) for each in document['networks'] for route in each.get('routes', ())
                if route['network'] in ('0.0.0.0', '::')]
    assert defaults == [('tapport-0', None)] * 2 + [('tapport-1', 1025)] * 2
    assert document['networks'][-1]['metric'] == 1026
    assert 'metric' not in next(route for route in document['networks'][2]['routes'] if route['network'] == '10.9.0.0')


def test_automatic_disk_configuration_lets_the_guest_grow_its_root():
    drive = metadata.files(make_instance(disk_config='AUTO'), [])
    asked = json.loads(drive['openstack/latest/vendor_data.json'])['cloud-init']
    assert asked.startswith('#cloud-config\n')
    assert yaml.safe_load(asked) == {'growpart': {'mode': 'auto', 'devices': ['/']}, 'resize_rootfs': True}
    assert metadata.files(make_instance(disk_config='MANUAL'), [])['openstack/latest/vendor_data.json'] == b'{}'


def test_every_drive_has_a_seed_of_its_own():
    one, two = (json.loads(metadata.files(make_instance(), [])['openstack/latest/meta_data.json'])
                for _ in range(2))
    assert one['random_seed'] != two['random_seed']
    assert len(base64.b64decode(one['random_seed'])) == metadata.RANDOM_SEED_BYTES


def test_ec2_ids_are_17_digits_and_follow_from_the_uuid():
    assert utils.ec2_id('01234567-89ab-cdef-0123-456789abcdef') == 'i-0123456789abcdef0'
    assert utils.ec2_id(None) is None


@pytest.fixture
def service(tmp_path):
    yield from served(tmp_path)


def get(service, path, address='10.0.0.5', method='GET', body=b'', **headers):
    request = webob.Request.blank(path, method=method, body=body, remote_addr=address)
    request.headers.update({name.replace('_', '-'): value for name, value in headers.items()})
    return request.get_response(service[0])


def test_a_guest_is_known_by_its_address(service):
    assert get(service, '/latest/meta-data/instance-id').text == utils.ec2_id(service[1]['uuid'])
    assert get(service, '/latest/meta-data/instance-id', address='10.0.0.6').status_int == 404
    assert get(service, '/latest/meta-data/public-keys/').text == '0=mykey'
    assert get(service, '/latest/meta-data/public-keys/0/openssh-key').text == KEY + '\n'
    assert get(service, '/2009-04-04/user-data').body == b'#!/bin/sh\necho hi\n'
    assert get(service, '/latest/meta-data/').text.split('\n')[0] == 'ami-id'
    assert 'placement/' in get(service, '/latest/meta-data').text.split('\n')
    macs = '/latest/meta-data/network/interfaces/macs/fa:16:3e:00:00:01'
    assert get(service, macs + '/local-ipv4s').text == '10.0.0.5'
    assert 'device-number' in get(service, macs).text.split('\n')
    assert get(service, '/latest/meta-data/nothing').status_int == 404
    assert get(service, '/1999-01-01/meta-data').status_int == 404


def test_guest_reads_the_groups_of_its_ports(service):
    """It read the groups that its server was asked for with, whatever its ports had."""
    with service[0].api.api_db.writer() as conn:
        stamps = {'created_at': NOW, 'updated_at': NOW}
        conn.execute(tables_network.security_groups.insert(), {'id': 'g', 'project_id': 'p', 'name': 'db', **stamps})
        conn.execute(tables_network.port_security_groups.insert(), {'port_id': 'port-1', 'security_group_id': 'g'})
    for path in ('security-groups', 'network/interfaces/macs/fa:16:3e:00:00:01/security-groups'):
        assert get(service, '/latest/meta-data/' + path).text == 'db'
    with service[0].api.api_db.writer() as conn:
        conn.execute(tables_network.security_groups.update().values(name='renamed'))
    assert get(service, '/latest/meta-data/security-groups').text == 'renamed'


def test_a_guest_reads_who_it_is(service):
    """EC2's identity document; what nobody can say here, as its signature, is not there."""
    _app, row = service
    assert get(service, '/latest').text.split('\n') == ['dynamic/', 'meta-data/', 'user-data']
    assert get(service, '/latest/dynamic').text == 'instance-identity/'
    assert get(service, '/latest/dynamic/instance-identity').text == 'document'
    found = json.loads(get(service, '/latest/dynamic/instance-identity/document').body)
    assert {name: value for name, value in found.items() if value is not None} == {
        'accountId': 'project-1', 'availabilityZone': 'nova', 'imageId': utils.ec2_id(row['image_id'], 'ami'),
        'instanceId': utils.ec2_id(row['uuid']), 'instanceType': 'm1.tiny', 'privateIp': '10.0.0.5',
        'pendingTime': NOW.strftime('%Y-%m-%dT%H:%M:%SZ'), 'region': 'RegionOne', 'version': '2017-09-30'}
    assert get(service, '/latest/meta-data/placement/region').text == 'RegionOne'
    for path in ('dynamic/instance-identity/signature', 'meta-data/iam/info', 'meta-data/services/domain'):
        assert get(service, '/latest/' + path).status_int == 404
    arm = metadata.identity_document(make_instance(image_properties={'hw_architecture': 'aarch64'}), 'RegionOne')
    assert json.loads(arm)['architecture'] == 'arm64'


def test_openstack_documents_describe_the_server(service):
    assert 'latest' in get(service, '/openstack').text
    document = get(service, '/openstack/latest/meta_data.json').json
    assert document['uuid'] == service[1]['uuid']
    assert 'admin_pass' not in document          # only the config drive carries it
    assert get(service, '/openstack/content/0000').body == b'hello'
    assert get(service, '/openstack/content/0001').status_int == 404
    assert get(service, '/openstack/latest/../../etc/passwd').status_int == 404


def test_class_f_forged_headers_of_a_proxy_are_refused(service):
    """CVE-2013-6419, CVE-2014-3517: the instance id must be signed and the tenant must be its own."""
    row = service[1]
    good = hmac.new(b'proxy secret', row['uuid'].encode(), hashlib.sha256).hexdigest()
    path = '/latest/meta-data/instance-id'
    assert get(service, path, '9.9.9.9', X_Instance_ID=row['uuid'], X_Tenant_ID='project-1',
               X_Instance_ID_Signature=good).status_int == 200
    assert get(service, path, X_Instance_ID=row['uuid'], X_Tenant_ID='project-1',
               X_Instance_ID_Signature='0' * 64).status_int == 403
    assert get(service, path, X_Instance_ID=row['uuid'], X_Tenant_ID='project-1').status_int == 403
    assert get(service, path, X_Instance_ID=row['uuid'], X_Tenant_ID='project-2',
               X_Instance_ID_Signature=good).status_int == 404
    assert get(service, path, '10.0.0.6', X_Forwarded_For='10.0.0.5').status_int == 404


PATH = '/latest/meta-data/instance-id'


def relayed(service, host='host1', kind='network', ident='n', address='10.0.0.5', master=None, at=0,
            path=PATH, signed=('GET', PATH, b''), method='GET', body=b'', more=None):
    """The answer to a request of a host's relay, which it has signed at a time from now."""
    master = master or service[0].api.api_db.run(metadata_keys.obtain)
    sent, digest = str(int(time.time()) + at), relay.digest(signed[2])
    proof = relay.signature(relay.key_of(master, host), host, kind, ident, address, (sent, *signed[:2], digest))
    named = {relay.HOST: host, relay.SOURCE_HEADERS[kind]: ident, relay.GUEST: address, relay.SIGNATURE: proof,
             relay.TIME: sent, relay.BODY: digest, **(more or {})}
    return get(service, path, '192.0.2.1', method, body, **named)


def test_an_answer_with_a_token_says_to_the_relay_how_far_it_may_go(service):
    """A proxy is refused: it would let the answer go as far as any."""
    where, row = '/latest/api/token', service[1]
    with service[0].api.api_db.writer() as conn:
        conn.execute(tables_network.ports.update().values(host='host1'))
    asked = {'path': where, 'signed': ('PUT', where, b''), 'method': 'PUT'}
    wanted = {tokens.TTL: '60'}
    first = relayed(service, **asked, more=wanted)
    assert first.status_int == 200 and relay.HOPS not in first.headers, first.text
    for text, hops in (('1', '1'), ('64', '64'), ('65', '1'), ('x', '1'), ('٣', '1')):
        with service[0].api.cells.of_server(row['uuid']).db.writer() as conn:
            instances.update(conn, row['uuid'], {'metadata': {tokens.HOPS: text}})
        assert relayed(service, **asked, more=wanted).headers[relay.HOPS] == hops
        proof = hmac.new(b'proxy secret', row['uuid'].encode(), hashlib.sha256).hexdigest()
        assert get(service, where, '9.9.9.9', 'PUT', X_Instance_ID=row['uuid'], X_Tenant_ID='project-1',
                   X_Instance_ID_Signature=proof, **wanted).status_int == 403
        assert relayed(service).status_int == 200                               # the rest goes as far as before


def test_a_relay_keeps_what_is_for_itself():
    head = b'HTTP/1.1 200 OK\r\nX-Nova-Relay-Hops: 3\r\nContent-Length: 30\r\n\r\n'
    body = b'X-Nova-Relay-Hops: 1\r\n\r\nX-Nova'
    assert relay.split_hop_limit(head + body) == (head.replace(b'X-Nova-Relay-Hops: 3\r\n', b'') + body, 3)
    plain = head.replace(b'X-Nova-Relay-Hops: 3\r\n', b'') + body
    assert relay.split_hop_limit(plain) == (plain, None) and relay.split_hop_limit(b'') == (b'', None)


def test_a_signature_of_a_relay_is_good_for_one_request_and_a_short_time(service):
    """It named host, network and address alone: who had read one could ask for everything, for ever."""
    with service[0].api.api_db.writer() as conn:
        conn.execute(tables_network.ports.update().values(host='host1'))
    assert relayed(service, at=-relay.VALID_S + 5).status_int == relayed(service, at=100).status_int == 200
    assert relayed(service, at=-relay.VALID_S - 5).status_int == relayed(service, at=10 ** 9).status_int == 403
    assert relayed(service, path='/latest/user-data').status_int == 403
    assert relayed(service, signed=('PUT', PATH, b'')).status_int == 403
    where, secret = '/openstack/latest/password', b'c2VjcmV0'
    assert relayed(service, path=where, signed=('POST', where, secret), method='POST', body=b'other').status_int == 403
    assert relayed(service, path=where, signed=('POST', where, secret), method='POST', body=secret).status_int == 200
    encoded = '/latest/meta%2Ddata/instance-id'
    assert relayed(service, path=encoded).status_int == 200, 'the path is signed without escapes'


def test_a_host_speaks_for_its_own_guests_alone(service):
    api_db = service[0].api.api_db
    with api_db.writer() as conn:
        conn.execute(tables_network.ports.update().values(host='host1'))
        conn.execute(tables_network.routers.insert(), {
            'id': 'r', 'routes': [], 'host': 'host2', 'created_at': NOW, 'updated_at': NOW})
        conn.execute(tables_network.router_interfaces.insert(), {'router_id': 'r', 'subnet_id': 's', 'port_id': 'x'})
    assert relayed(service).text == utils.ec2_id(service[1]['uuid'])
    assert relayed(service, 'host2').status_int == 404                       # the guest is on host1
    assert relayed(service, 'host2', 'router', 'r').status_int == 200
    assert relayed(service, 'host1', 'router', 'r').status_int == 200        # a part of it is there
    assert relayed(service, 'host3', 'router', 'r').status_int == 404
    assert relayed(service, ident='m').status_int == relayed(service, address='10.0.0.6').status_int == 404
    assert relayed(service, master=b'another').status_int == 403
    assert get(service, '/latest/meta-data', **{relay.NETWORK: 'n', relay.GUEST: '10.0.0.5'}).status_int == 403


@pytest.mark.parametrize('owner', ['network:dhcp', 'network:floatingip', 'network:router_interface'])
def test_a_port_of_the_network_service_is_no_guest(service, owner):
    """Such ports have ids of devices, too, which were taken for servers'."""
    api_db, ports = service[0].api.api_db, tables_network.ports
    with api_db.writer() as conn:
        conn.execute(ports.update().values(device_owner=owner))
    with api_db.reader() as conn:
        assert db_ports.device_at(conn, '10.0.0.5') is None
        assert db_ports.device_by_network(conn, 'n', '10.0.0.5', 'host1') is None
    assert get(service, '/latest/meta-data/instance-id').status_int == 404


@pytest.mark.parametrize('loose', [{'port_security_enabled': False},
                                   {'allowed_address_pairs': [{'ip_address': '10.0.0.5', 'mac_address': None}]}])
def test_an_address_that_another_project_may_take_proves_nothing(service, loose):
    """The owner of a shared network could read what a neighbour's metadata says by taking its address."""
    api_db, ports = service[0].api.api_db, tables_network.ports
    with api_db.writer() as conn:
        conn.execute(ports.update().values(host='host1', project_id='victim', allowed_address_pairs=None))
        conn.execute(ports.insert(), {
            'id': 'loose', 'network_id': 'n', 'mac_address': 'fa:16:3e:00:00:03', 'device_id': 'another',
            'project_id': 'owner', 'created_at': NOW, 'updated_at': NOW, **loose})
    assert relayed(service).status_int == 404
    with api_db.writer() as conn:
        conn.execute(ports.update().where(ports.c.id == 'loose').values(project_id='victim'))
    assert relayed(service).status_int == 200, 'a project may take its own addresses'


def test_a_network_of_a_project_with_the_same_address_takes_nobodys_metadata_away(service):
    """Its guest's address was counted with those of the hosts' own networks: two had it, and none was known."""
    with service[0].api.api_db.writer() as conn:
        conn.execute(tables_network.networks.insert(), {
            'id': 'o', 'bridge': 'br1', 'mtu': 1450, 'network_type': 'vxlan', 'created_at': NOW, 'updated_at': NOW})
        conn.execute(tables_network.ports.insert(), {
            'id': 'port-2', 'network_id': 'o', 'mac_address': 'fa:16:3e:00:00:02', 'device_id': 'another',
            'created_at': NOW, 'updated_at': NOW})
        conn.execute(tables_network.addresses.insert(), {
            'subnet_id': 't', 'number': 5, 'address': '10.0.0.5', 'port_id': 'port-2'})
    assert get(service, '/latest/meta-data/instance-id').text == utils.ec2_id(service[1]['uuid'])


def test_without_a_secret_no_signature_is_good(service):
    service[0].secret = b''
    forged = hmac.new(b'', service[1]['uuid'].encode(), hashlib.sha256).hexdigest()
    assert get(service, '/latest/meta-data', X_Instance_ID=service[1]['uuid'], X_Tenant_ID='project-1',
               X_Instance_ID_Signature=forged).status_int == 403


def test_guest_can_post_its_password_once(service):
    path = '/openstack/latest/password'
    assert get(service, path).body == b''
    assert get(service, path, method='POST', body=b'x' * (app.PASSWORD_MAX + 1)).status_int == 400
    assert get(service, path, method='POST', body=b'\xff').status_int == 400
    chunked = webob.Request.blank(path, method='POST', remote_addr='10.0.0.5', environ={
        'wsgi.input': io.BytesIO(b'x' * (app.PASSWORD_MAX + 1)), 'wsgi.input_terminated': True})
    assert chunked.content_length is None
    assert chunked.get_response(service[0]).status_int == 400        # it was cut off and stored
    assert get(service, path, method='POST', body=b'encrypted').status_int == 200
    assert get(service, path).body == b'encrypted'
    assert get(service, path, method='POST', body=b'again').status_int == 409
    assert get(service, '/latest/meta-data', method='PUT').status_int == 405


def test_the_daemon_for_proxies_is_ready_while_its_databases_are_there(tmp_path):
    conf = nova_conf.new(files=[], state_path=str(tmp_path), metadata__shared_secret='proxy secret')
    for database, branch in zip(assembly.open_databases(conf), ('api', 'cell')):
        migration.sync(database, branch)
        database.dispose()
    parts = api_metadata.parts(conf)
    found = health.ready(parts)
    assert found.keys() == {'database api', 'database cell'} and health.well(found)


def test_the_daemon_needs_the_proxies_secret_of_a_networking_service_alone(tmp_path):
    """For the relays of hosts with agents, which have keys of their own, it did not start without [metadata]
    shared_secret, and tools/cluster.sh --network agents had no metadata in networks of projects."""
    conf = nova_conf.new(files=[], state_path=str(tmp_path))
    for database, branch in zip(assembly.open_databases(conf), ('api', 'cell')):
        migration.sync(database, branch)
        database.dispose()
    assert api_metadata.parts(conf)
    with pytest.raises(exception.InvalidInput, match='shared_secret'):
        api_metadata.parts(nova_conf.new(files=[], state_path=str(tmp_path), network__backend='neutron'))
