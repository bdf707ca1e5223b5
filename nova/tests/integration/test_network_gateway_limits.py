"""Bandwidth of a router's gateway: what the outside sends to a guest is slower than the limit of the policy."""
import subprocess
import time

import pytest

from nova.tests.support import network_overlay as overlays

pytestmark = overlays.pytestmark
SIZE = 600_000
SERVER = f'''
import socket
s = socket.create_server(("", 7007))
print(1, flush=True)
while 1:
    c, _ = s.accept()
    c.sendall(b"x" * {SIZE})
    c.close()
'''
CLIENT = '''
import socket
s, n = socket.create_connection(("172.24.4.1", 7007), 4), 0
while part := s.recv(65536):
    n += len(part)
print(n)
'''


@pytest.fixture
def world(tmp_path):
    made = overlays.World(tmp_path, hosts=1)
    yield made
    made.close()


def test_a_policy_slows_what_passes_the_gateway(world):
    network, external = world.network(), world.outside()
    router = world.router(network, external=external)
    guest = world.boot(0, network, 'guest')
    guest.dhcp()
    answer = world.face('admin', 'POST', 'qos/policies', {'policy': {'name': 'p', 'shared': True}})
    policy = answer.json()['policy']['id']
    rule = world.face('admin', 'POST', f'qos/policies/{policy}/bandwidth_limit_rules', {'bandwidth_limit_rule': {
        'max_kbps': 1000, 'direction': 'ingress'}})
    assert rule.status_code == 201, rule.text
    server = subprocess.Popen(['ip', 'netns', 'exec', world.outer, 'python3', '-c', SERVER], stdout=subprocess.PIPE,
                              text=True)
    server.stdout.readline()
    try:
        taken = {}
        for limit in (None, policy, None):
            world.put('demo', f'routers/{router}', {'router': {'external_gateway_info': {
                'network_id': external, 'qos_policy_id': limit}}})
            world.report()
            begun = time.monotonic()
            assert int(guest('python3', '-c', CLIENT)) == SIZE
            taken.setdefault(limit, []).append(time.monotonic() - begun)
    finally:
        server.kill()
        server.wait()
    # 125,000 bytes a second after a burst of 100,000
    assert taken[policy][0] > 2.5 and max(taken[None]) < 2, taken
