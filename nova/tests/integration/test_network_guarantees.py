"""A guaranteed bandwidth is there while other guests of the host flood the same device."""
import json
import subprocess

import pytest

from nova.tests.support import network_overlay as overlays

pytestmark = overlays.pytestmark
SECONDS, KBPS, GUARANTEED = 4, 10_000, 8_000
# counts bytes of UDP for the seconds after the first datagram of each sender
RECEIVER = f'''
import collections, json, socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 7000))
s.settimeout({SECONDS})
print(1, flush=True)
found, end = collections.Counter(), None
while end is None or time.monotonic() < end:
    data, place = s.recvfrom(2000)
    end = end or time.monotonic() + {SECONDS}
    found[place[0]] += len(data) + 28
print(json.dumps(found))
'''
# sends at a rate, in kilobits a second
SENDER = f'''
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
begun, sent, rate = time.monotonic(), 0, int(sys.argv[2]) * 125
while (now := time.monotonic() - begun) < {SECONDS} + 2:
    if sent > now * rate:
        time.sleep(0.001)
        continue
    s.sendto(b"x" * 1200, (sys.argv[1], 7000))
    sent += 1228
'''


@pytest.fixture
def world(tmp_path):
    made = overlays.World(tmp_path)
    for host in made.hosts:
        host.conf.set_override('guaranteed_bandwidth', [f'rp_tunnelled:{KBPS}:{KBPS}'], 'network')
        host.driver.linux.guarantees.__init__(host.conf, host.run)
    made.report()
    yield made
    made.close()


def rule(world):
    made = world.face('admin', 'POST', 'qos/policies', {'policy': {'name': 'q', 'shared': True}}).json()['policy']
    answer = world.face('admin', 'POST', f"qos/policies/{made['id']}/minimum_bandwidth_rules", {
        'minimum_bandwidth_rule': {'min_kbps': GUARANTEED}})
    assert answer.status_code == 201, answer.text
    return made['id']


def test_a_port_gets_its_guarantee_beside_a_flood(world):
    network = world.network()
    group = world.face('demo', 'GET', 'security-groups').json()['security_groups'][0]['id']
    answer = world.face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
        'security_group_id': group, 'direction': 'ingress', 'protocol': 'udp'}})
    assert answer.status_code == 201, answer.text
    port = world.make('demo', 'ports', network_id=network, qos_policy_id=rule(world))['id']
    served, flood = world.boot(0, network, 'served', port=port), world.boot(0, network, 'flood')
    target = world.boot(1, network, 'target')
    for guest in (served, flood, target):
        guest.dhcp()
    assert served.pings(target.address) and flood.pings(target.address)
    host = world.hosts[0]
    shown = host.run('tc', 'class', 'show', 'dev', 'tun0')
    assert f'rate {GUARANTEED // 1000}Mbit ceil {KBPS // 1000}Mbit' in shown, shown

    def received(*senders):
        counter = subprocess.Popen(['ip', 'netns', 'exec', target.space, 'python3', '-c', RECEIVER],
                                   stdout=subprocess.PIPE, text=True)
        counter.stdout.readline()
        running = [subprocess.Popen(['ip', 'netns', 'exec', guest.space, 'python3', '-c', SENDER, target.address,
                                     str(rate)]) for guest, rate in senders]
        found = json.loads(counter.stdout.read())
        for each in (*running, counter):
            each.wait()
        return {guest: found.get(guest.address, 0) * 8 / 1000 / SECONDS for guest, _rate in senders}

    def holds(check, *senders):
        """One of three times: on a busy machine a sender may not run for a while."""
        found = []
        while not found or not check(found[-1]):
            assert len(found) < 3, found
            found.append(received(*senders))
    holds(lambda both: both[served] > 0.85 * GUARANTEED and both[flood] < 0.4 * KBPS, (served, GUARANTEED),
          (flood, 5 * KBPS))
    holds(lambda alone: alone[flood] > 0.7 * KBPS, (flood, 5 * KBPS))
    # without the policy the device is as it was, and the flood takes most of it
    world.put('admin', f'ports/{port}', {'port': {'qos_policy_id': None}})
    world.report()
    assert 'htb' not in host.run('tc', 'qdisc', 'show', 'dev', 'tun0')


def test_changes_and_restarts_change_the_classes(world):
    network, policy = world.network(), rule(world)
    ports = [world.make('demo', 'ports', network_id=network)['id'] for _ in range(2)]
    host = world.hosts[0]
    for port in ports:
        world.boot(0, network, 'g', port=port)

    def classes():
        return sorted(line.split()[2] for line in host.run('tc', 'class', 'show', 'dev', 'tun0').splitlines())
    world.put('admin', f'ports/{ports[0]}', {'port': {'qos_policy_id': policy}})
    world.report()
    assert classes() == ['7676:1', '7676:fffe', '7676:ffff']
    assert world.face('admin', 'PUT', f'ports/{ports[1]}', {'port': {'qos_policy_id': policy}}).status_code == 409
    host.run('tc', 'qdisc', 'del', 'dev', 'tun0', 'root')
    host.manager.sync()
    assert classes() == ['7676:1', '7676:fffe', '7676:ffff']
    again = type(host.driver.linux.guarantees)(host.conf, host.run)        # a restarted service
    again.apply(host.driver.checked(host.manager.load()))
    assert classes() == ['7676:1', '7676:fffe', '7676:ffff']
    rules = world.face('admin', 'GET', f'qos/policies/{policy}').json()['policy']['rules']
    answer = world.face('admin', 'PUT', f"qos/policies/{policy}/minimum_bandwidth_rules/{rules[0]['id']}", {
        'minimum_bandwidth_rule': {'min_kbps': 2000}})
    assert answer.status_code == 200, answer.text
    world.put('admin', f'ports/{ports[1]}', {'port': {'qos_policy_id': policy}})
    world.report()
    assert classes() == ['7676:1', '7676:2', '7676:fffe', '7676:ffff']
    assert 'rate 2Mbit ceil 10Mbit' in host.run('tc', 'class', 'show', 'dev', 'tun0', 'classid', '7676:2')
    last = type(host.driver.linux.guarantees)(host.conf, host.run)
    last.forget()
    assert 'htb' not in host.run('tc', 'qdisc', 'show', 'dev', 'tun0')
