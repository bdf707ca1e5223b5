"""Active FTP through a router's address: the server connects back to the client, where the router has the helper."""
import subprocess

import pytest

from nova.tests.support import network_overlay as overlays

pytestmark = overlays.pytestmark
# connects to the address of a PORT command, and answers whether that succeeded
SERVER = '''
import socket
s = socket.create_server(("", 21))
print(1, flush=True)
while 1:
    c, _ = s.accept()
    c.recv(100)
    c.send(b"331\\r\\n")
    n = c.recv(100).decode().split()[1].split(",")
    try:
        socket.create_connection((".".join(n[:4]), int(n[4]) * 256 + int(n[5])), 2).close()
        c.send(b"open")
    except OSError:
        c.send(b"closed")
    c.close()
'''
CLIENT = '''
import socket
data = socket.create_server(("", 5001))
s = socket.create_connection(("172.24.4.1", 21), 4)
s.send(b"USER a\\r\\n")                     # the kernel reads lines after the first one
s.recv(30)
s.send(("PORT " + s.getsockname()[0].replace(".", ",") + ",19,137\\r\\n").encode())
print(s.recv(30).decode())
'''


@pytest.fixture
def world(tmp_path):
    made = overlays.World(tmp_path, hosts=1)
    yield made
    made.close()


def test_a_server_reaches_the_client_behind_a_router_with_the_helper(world):
    network = world.network()
    router = world.router(network, external=world.outside())
    group = world.face('demo', 'GET', 'security-groups').json()['security_groups'][0]['id']
    answer = world.face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
        'security_group_id': group, 'direction': 'ingress', 'protocol': 'tcp'}})
    assert answer.status_code == 201, answer.text
    guest = world.boot(0, network, 'guest')
    guest.dhcp()
    server = subprocess.Popen(['ip', 'netns', 'exec', world.outer, 'python3', '-c', SERVER], stdout=subprocess.PIPE,
                              text=True)
    server.stdout.readline()
    try:
        path, body = f'routers/{router}/conntrack_helpers', {'helper': 'ftp', 'protocol': 'tcp', 'port': 21}
        assert guest('python3', '-c', CLIENT).strip() == 'closed'
        made = world.face('demo', 'POST', path, {'conntrack_helper': body})
        assert made.status_code == 201, made.text
        world.report()
        assert guest('python3', '-c', CLIENT).strip() == 'open'
        assert world.face('demo', 'DELETE', f"{path}/{made.json()['conntrack_helper']['id']}").status_code == 204
        world.report()
        assert guest('python3', '-c', CLIENT).strip() == 'closed'
    finally:
        server.kill()
        server.wait()
