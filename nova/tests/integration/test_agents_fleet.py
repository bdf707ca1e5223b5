"""Guests of QEMU on two hosts of a fleet that have agents and no database: they find each other by name.

NOVA_TEST_AGENTS_FLEET names the directory of a fleet that runs, made by
``NOVA_CLUSTER_DIR=… tools/cluster.sh up --network agents --libvirt 2 --computes 2``.
"""
import os
import pathlib
import subprocess
import types
import uuid

import pytest

from nova.tests.support import waiting

FLEET = os.environ.get('NOVA_TEST_AGENTS_FLEET')
pytestmark = pytest.mark.skipif(not FLEET or os.geteuid() != 0,
                                reason='needs root, and a fleet that NOVA_TEST_AGENTS_FLEET names')
TOOLS = pathlib.Path(__file__).resolve().parents[3] / 'tools'
HOSTS = ('compute1', 'compute2')
BRIDGE = 'br-nova'
GUEST_S = 240                   # until an emulated guest is up


@pytest.fixture
def fleet(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('NOVA_CLUSTER_DIR', FLEET)
        patch.syspath_prepend(str(TOOLS))
        from cluster import hosts
        from cluster import prepare
        from cluster import settings
        made = settings.load()
        cloud = prepare.cloud(made)
        cloud.compute.default_microversion = '2.74'
        name = 'test-' + uuid.uuid4().hex[:8]
        key = cloud.compute.create_keypair(name=name)
        (tmp_path / 'key').write_text(key.private_key)
        (tmp_path / 'key').chmod(0o600)
        network = cloud.network.create_network(name=name)
        cloud.network.create_subnet(network_id=network.id, cidr='10.9.0.0/24', ip_version=4)
        group = cloud.network.create_security_group(name=name)
        cloud.network.create_security_group_rule(security_group_id=group.id, direction='ingress')
        rig = types.SimpleNamespace(cloud=cloud, key=key, place=tmp_path, network=network, group=group, name=name,
                                    hosts=hosts, settings=settings, servers=[])
        try:
            yield rig
        finally:
            for server in rig.servers:
                cloud.compute.delete_server(server)
            for server in rig.servers:
                cloud.compute.wait_for_delete(server, wait=60)
            cloud.network.delete_network(network)
            cloud.network.delete_security_group(group)
            cloud.compute.delete_keypair(key)


def boot(fleet, name, host):
    compute = fleet.cloud.compute
    made = compute.create_server(
        name=name, flavor_id=compute.find_flavor('real.nano').id, image_id=fleet.cloud.image.find_image('guest').id,
        key_name=fleet.key.name, host=host, networks=[{'uuid': fleet.network.id}],
        security_groups=[{'name': fleet.group.name}])
    fleet.servers.append(made)
    return made


def ready(fleet, server):
    """What a guest says of itself when it is up, or None."""
    text = fleet.cloud.compute.get_server_console_output(server, length=200)['output']
    return next((line for line in text.splitlines() if line.startswith('guest ready:')), None)


def ssh(fleet, host, address, *command):
    """What a guest prints: it is reached from where its host answers DHCP in its network."""
    holder = fleet.hosts.directory(host) / 'run' / 'nova-namespaces' / f'{BRIDGE}-n-{fleet.network.id}'
    return subprocess.run(
        ['nsenter', '-t', holder.read_text().split()[0], '-n', 'ssh', '-i', fleet.place / 'key', '-o',
         'StrictHostKeyChecking=no', '-o', 'UserKnownHostsFile=/dev/null', '-o', 'ConnectTimeout=5', '-o',
         'LogLevel=ERROR', f'root@{address}', *command], capture_output=True, text=True, timeout=60, check=False)


def test_guests_of_two_hosts_ping_each_other_by_name(fleet):
    for name, host in zip(('one', 'two'), HOSTS, strict=True):
        boot(fleet, name, host)
    one, two = (fleet.cloud.compute.wait_for_server(server, wait=120) for server in fleet.servers)
    addresses = [server.addresses[fleet.name][0]['addr'] for server in (one, two)]
    for server in (one, two):
        text = waiting.wait_for(lambda server=server: ready(fleet, server), GUEST_S, 'the guest', 2)
        assert f'address {server.addresses[fleet.name][0]["addr"]}' in text
    for host, address, other, there in ((HOSTS[0], addresses[0], 'two', addresses[1]),
                                        (HOSTS[1], addresses[1], 'one', addresses[0])):
        waiting.wait_for(lambda host=host, address=address: ssh(fleet, host, address, 'true').returncode == 0, 60,
                         'ssh into the guest', 1)
        found = ssh(fleet, host, address, 'ping', '-c', '3', other)
        assert '3 packets received' in found.stdout and there in found.stdout, found


def test_no_host_knows_a_database(fleet):
    for host in HOSTS:
        for name in (host, f'network-{host}'):
            text = (fleet.settings.DIRECTORY / 'nova' / f'{name}.conf').read_text()
            assert 'agent = true' in text and '[database]' not in text and '[api_database]' not in text
    printed = {service.host for service in fleet.cloud.compute.services(binary='nova-network-agent')
               if service.state == 'up'}
    assert printed == set(HOSTS)
