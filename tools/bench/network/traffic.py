"""TCP between guests that are namespaces, compared with the same devices without this product: see services.py.

With all filters, on one host, and between two, which are namespaces, too, over VXLAN. In turns with pairs of devices on
bridges that no packet filter sees, made by hand: what the kernel gives. One connection, with writes of 16 KiB and, as
iperf3 does it, of 128 KiB: the larger they are the less has to be done for a byte besides, and the more each packet
weighs. By CUBIC, as guests have it, not by what this machine has chosen for itself.
"""
import contextlib
import itertools
import statistics
import subprocess

from nova.network.linux import flow_offload

PLACES = ('on one host', 'between hosts')
CALLS = 'for name in /proc/sys/net/bridge/bridge-nf-call-*; do echo %d > $name; done'
FOLLOWED = 'table inet followed { chain c { type filter hook forward priority 0; ct state invalid drop; }; }\n'
TURNS, SECONDS = 7, 2
WRITES = (16, 128)               # KiB
WANTED = 90                      # percent of what the kernel gives
SINK = """
import socket, time
server, buffer, got = socket.create_server(("", 5001)), bytearray(1 << 17), 0
print(1, flush=True)
connection, began = server.accept()[0], time.monotonic()
while size := connection.recv_into(buffer):
    got += size
print(got, time.monotonic() - began, time.process_time())
"""
SOURCE = """
import contextlib, socket, sys, time
connection = socket.socket()
with contextlib.suppress(OSError):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
connection.connect((sys.argv[1], 5001))
ends, block = time.monotonic() + float(sys.argv[2]), bytes(1024 * int(sys.argv[3]))
while time.monotonic() < ends:
    connection.sendall(block)
connection.close()
print(time.process_time())
"""


class Plain:
    """A guest of what the kernel gives without this product: a pair of devices on a bridge, and no filter."""

    def __init__(self, world, space, number):
        self.space, self.address = world.space(f'p{number}'), f'10.0.0.{number}'
        for words in (('-n', space, 'link', 'add', f'p{number}', 'type', 'veth', 'peer', 'name', 'eth0', 'netns',
                       self.space),
                      ('-n', space, 'link', 'set', f'p{number}', 'master', 'br0', 'up'),
                      ('-n', self.space, 'link', 'set', 'eth0', 'mtu', '1450', 'up'),
                      ('-n', self.space, 'address', 'add', f'{self.address}/24', 'dev', 'eth0')):
            world.run('ip', *words)


def plain(world):
    """Three such guests: two of one host and one of another, with VXLAN over the wire of the hosts of the world."""
    hosts = []
    for number in (1, 2):
        host = world.space(f'q{number}')
        for words in (('link', 'add', f'q{number}', 'type', 'veth', 'peer', 'name', 'tun0', 'netns', host),
                      ('link', 'set', f'q{number}', 'master', 'tun', 'up')):
            world.run('ip', '-n', world.outer, *words)
        for words in (('link', 'set', 'tun0', 'up'), ('address', 'add', f'192.0.2.{number + 50}/24', 'dev', 'tun0'),
                      ('link', 'add', 'br0', 'type', 'bridge'), ('link', 'set', 'br0', 'up'),
                      ('link', 'add', 'vx0', 'mtu', '1450', 'type', 'vxlan', 'id', '9', 'local',
                       f'192.0.2.{number + 50}', 'remote', f'192.0.2.{53 - number}', 'dstport', '4789', 'noudpcsum'),
                      ('link', 'set', 'vx0', 'master', 'br0', 'up')):
            world.run('ip', '-n', host, *words)
        hosts.append(host)
    for space in (*hosts, world.outer):           # nor does br_netfilter see a packet there, as it does by itself
        world.run('ip', 'netns', 'exec', space, 'sh', '-c', CALLS % 0)
    return [Plain(world, hosts[place], number) for number, place in ((11, 0), (12, 0), (13, 1))]


def rate(source, sink, kib):
    """(bits a second, seconds of the processor a byte) of what one guest sends to another: TCP's payload."""
    process = subprocess.Popen(['ip', 'netns', 'exec', sink.space, 'python3', '-c', SINK], stdout=subprocess.PIPE,
                               text=True)
    try:
        process.stdout.readline()
        sent = subprocess.run(['ip', 'netns', 'exec', source.space, 'python3', '-c', SOURCE, sink.address,
                               str(SECONDS), str(kib)], stdout=subprocess.PIPE, text=True, check=True)
        got, taken, processor = map(float, process.stdout.readline().split())
        return 8 * got / taken, (processor + float(sent.stdout)) / got
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def guests(path):
    """(the world, three guests of this product, three of plain()); two of one host and one of another."""
    from nova.tests.support import network_overlay as overlay

    (path / 'world').mkdir()
    world = overlay.World(path / 'world')
    try:
        network = world.network()
        ours = [world.boot(host, network, name) for host, name in ((0, 'a'), (0, 'b'), (1, 'c'))]
        for guest in ours:
            guest.dhcp()
        for host in world.hosts:                  # finds the devices that the guests have got, as it does each minute
            host.manager.sync()
        world.run = overlay.run
        yield world, ours, plain(world)
    finally:
        world.close()


def measure(path, show):
    """Each compared with the same without this product, in turns."""
    with guests(path) as (_world, (one, neighbour, far), (first, second, third)):
        places = (('on one host (veth)', neighbour, second), ('between hosts (VXLAN)', far, third))
        for (name, other, bare), kib in itertools.product(places, WRITES):
            ours, theirs = zip(*((rate(one, other, kib), rate(first, bare, kib)) for _turn in range(TURNS)))
            show(f'TCP of guests {name}, writes of {kib} KiB',
                 gigabits_per_second=round(statistics.median(bits for bits, _cost in ours) / 1e9, 2),
                 plain=round(statistics.median(bits for bits, _cost in theirs) / 1e9, 2), wanted_percent=WANTED,
                 percent=round(100 * statistics.median(a[0] / b[0] for a, b in zip(ours, theirs))),
                 percent_by_processor_time=round(100 * statistics.median(b[1] / a[1] for a, b in zip(ours, theirs))))


def stages(path, show):
    """Processor time a GiB of each part of the way, all of them in turns."""
    with guests(path) as (world, ours, bare):
        def followed(hosts):
            for host in hosts:
                world.run('ip', 'netns', 'exec', host, 'nft', '-f', '-', stdin=FOLLOWED)

        def called(number):
            for host in (f'nvq1{world.tag}', f'nvq2{world.tag}'):
                world.run('ip', 'netns', 'exec', host, 'sh', '-c', CALLS % number)

        def long():
            for host in world.hosts:
                linux = host.driver.linux
                linux.run('nft', '-f', '-', stdin=flow_offload.remove(linux.table))
                linux._loaded_offload = None

        def short():
            for host in world.hosts:
                host.driver.linux._apply_offload(host.driver.linux._state)
        hosts = [f'nvq{number}{world.tag}' for number in (1, 2)]
        steps = (('a bridge alone', bare, lambda: called(0)),
                 ('and br_netfilter', bare, lambda: called(1)),
                 ('and connections tracked', bare, lambda: followed(hosts)),
                 ('all filters, the long way', ours, long),
                 ('all filters, with flow offload', ours, short))
        costs = {(step, place): [] for step, _guests, _begin in steps for place in PLACES}
        for _turn in range(TURNS):
            for step, (one, *others), begin in steps:
                begin()
                for place, other in zip(PLACES, others, strict=True):
                    costs[step, place].append(rate(one, other, WRITES[-1])[1] * 2**30)
            for host in hosts:
                world.run('ip', 'netns', 'exec', host, 'nft', 'delete', 'table', 'inet', 'followed')
        for place in PLACES:
            whole = statistics.median(costs[steps[0][0], place])
            for step, _guests, _begin in steps:
                cost = statistics.median(costs[step, place])
                show(f'{place}: {step}', seconds_per_gib=round(cost, 3), percent_of_plain=round(100 * whole / cost))
