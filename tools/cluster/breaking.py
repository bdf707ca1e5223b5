"""The faults of tools/faults.py: functions that break parts of the fleet, wait, and mend them."""
import collections
import concurrent.futures
import contextlib
import dataclasses
import random
import signal
import time
import typing

import kombu

from cluster import parts
from cluster import settings
from cluster.processes import Part
from cluster.processes import run

REFUSES_S = 60
RANDOM_S, KILL_EVERY_S, LONGEST_DOWN_S = 60, 4, 30
SERVES_S = 8                    # how long a daemon without an address needs from its start to its first message


@dataclasses.dataclass(frozen=True)
class Fault:
    """
    function    called with the fleet; breaks, waits, mends; what it returns are sentences: differences of its own
    lossless    no request may fail
    refuses     a new server may find no host: the only one of its kind is down
    needs       what a fleet must have been built with: an attribute of its Settings
    """

    function: typing.Callable
    lossless: bool = False
    refuses: bool = False
    needs: str = ''


def _each(names, begin, end, down_s):
    """``begin(part)`` and, so many seconds later, ``end(part)`` of these parts."""
    def fault(fleet):
        chosen = [fleet.parts[name] for name in (names(fleet) if callable(names) else names)]
        for part in chosen:
            begin(part)
        time.sleep(down_s)
        for part in chosen:
            end(part)
    return fault


def killed(*names, down_s=5):
    return _each(names, Part.kill, Part.start, down_s)


def stopped(*names, down_s=0):
    return _each(names, Part.stop, Part.start, down_s)


def frozen(*names, down_s=20):
    return _each(names, lambda part: part.signal(signal.SIGSTOP), lambda part: part.signal(signal.SIGCONT), down_s)


def _computes(fleet):
    return [name for name in fleet.parts if name.startswith('compute')]


def _database(fleet):
    return [fleet.settings.database]


def _daemons(fleet):
    return [part.name for part in parts.nova(fleet.settings) if part.name != 'haproxy']


def killed_at_random(fleet):
    """SIGKILL of a daemon every few seconds; each is started again after 0 to 30 s."""
    rng, end, back = random.Random(fleet.rng.random()), time.monotonic() + RANDOM_S, []
    kills = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        def revive(part, after):
            time.sleep(after)
            before = kills[part.name]
            try:
                part.start()
            except RuntimeError:
                if kills[part.name] == before:       # else it was killed before it served: another revival follows
                    raise
        while time.monotonic() < end:
            part = fleet.parts[rng.choice(_daemons(fleet))]
            kills[part.name] += 1
            if part.kill():
                back.append(pool.submit(revive, part, rng.uniform(0, LONGEST_DOWN_S)))
            time.sleep(rng.uniform(0, 2 * KILL_EVERY_S))
        for job in back:
            job.result()


def restarted_in_order(fleet):
    """SIGTERM of one daemon after the other, as for a new version; the next when this one serves again."""
    for name in ('conductor1', 'conductor2', 'scheduler1', 'scheduler2', 'network', 'api1', 'api2', 'compute1'):
        fleet.parts[name].stop()
        fleet.parts[name].start()
        time.sleep(SERVES_S)


def cut_off(number, down_s=60):
    """The cable of a compute host is out."""
    def fault(fleet):
        device = f'{settings.CABLES}{number}'
        run('ip', 'link', 'set', device, 'down')
        time.sleep(down_s)
        run('ip', 'link', 'set', device, 'up')
    return fault


@contextlib.contextmanager
def _packets_dropped(port, namespace=None):
    """No packet from or to this port of the servers' address passes, and no side is notified."""
    rules = ' '.join(f'ip {end}addr {settings.ADDRESS} tcp {end}port {port} drop;' for end in 'sd')
    table = 'table inet nova_faults {\n%s\n}' % '\n'.join(
        f'chain {hook} {{ type filter hook {hook} priority -300; {rules} }}' for hook in ('input', 'output'))
    where = ('ip', 'netns', 'exec', namespace) if namespace else ()
    run(*where, 'nft', table)
    try:
        yield
    finally:
        run(*where, 'nft', 'delete table inet nova_faults')


def unreachable(part, down_s, compute=None):
    """Connections to a server hang: packets vanish between it and all others, or one compute."""
    def fault(fleet):
        with _packets_dropped(settings.PORTS[part], compute and settings.NAMESPACES + compute):
            time.sleep(down_s)
    return fault


def rabbitmqctl(fleet, *words):
    return parts.rabbitmqctl(fleet.parts['rabbitmq'], *words)


def queues_deleted(fleet):
    """Every queue of the daemons goes while they listen."""
    names = [name for name in rabbitmqctl(fleet, 'list_queues', 'name').split()[1:] if not name.startswith('reply_')]
    with kombu.Connection(fleet.settings.transport_url.replace('nova-rabbit://', 'amqp://')) as connection:
        channel = connection.channel()
        for name in names:
            channel.queue_delete(name)


def read_only(down_s):
    """The database answers, and refuses to write."""
    def fault(fleet):
        directory = settings.DIRECTORY / fleet.settings.database

        def switch(on):
            if fleet.settings.database == 'mariadb':
                run(parts.program('mariadb'), f'--socket={directory}/socket', '--user=root', '--execute',
                    f'SET GLOBAL read_only = {on:d}')
            else:
                run(parts.program('psql'), '-h', directory, '-p', settings.PORTS['postgresql'], '-d', 'postgres', '-c',
                    f'ALTER SYSTEM SET default_transaction_read_only = {"on" if on else "off"}', '-c',
                    'SELECT pg_reload_conf()', user='postgres')
        switch(True)
        try:
            time.sleep(down_s)
        finally:
            switch(False)
    return fault


def second_of_a_name(fleet):
    """A second nova-compute with the configuration of the first one, as a copied machine has it; it must refuse."""
    first = fleet.parts['compute1']
    twin = Part('twin', first.command, namespace=first.namespace)
    twin.start()
    end = time.monotonic() + REFUSES_S
    while twin.pid() is not None and time.monotonic() < end:
        time.sleep(0.2)
    if twin.kill():
        return ['a second compute of the same name goes on']
    return [] if first.pid() else ['the first compute of the name ended']


def nothing(fleet):
    """Reference for the comparison with the others."""


FAULTS = {
    'none': Fault(nothing, lossless=True),
    'one api killed': Fault(killed('api1')),
    'one api stopped in order': Fault(stopped('api1'), lossless=True),
    'one conductor killed': Fault(killed('conductor1')),
    'both conductors killed': Fault(killed('conductor1', 'conductor2')),
    'one scheduler killed': Fault(killed('scheduler1')),
    'both schedulers killed': Fault(killed('scheduler1', 'scheduler2')),
    'network killed': Fault(killed('network')),
    'one compute killed': Fault(killed('compute1')),
    'one compute stopped in order': Fault(stopped('compute1'), lossless=True),
    'all computes killed': Fault(_each(_computes, Part.kill, Part.start, 5)),
    'second compute of a name': Fault(second_of_a_name, lossless=True),
    'one conductor frozen': Fault(frozen('conductor1')),
    'daemons killed at random': Fault(killed_at_random),
    'daemons restarted in order': Fault(restarted_in_order, lossless=True),
    'broker restarted': Fault(stopped('rabbitmq')),
    'broker killed': Fault(killed('rabbitmq')),
    'broker away for 30 s': Fault(stopped('rabbitmq', down_s=30)),
    'broker unreachable for 60 s': Fault(unreachable('rabbitmq', 60)),
    'queues deleted': Fault(queues_deleted),
    'database restarted': Fault(_each(_database, Part.stop, Part.start, 0)),
    'database killed': Fault(_each(_database, Part.kill, Part.start, 1)),
    'database away for 30 s': Fault(_each(_database, Part.stop, Part.start, 30)),
    'database read-only for 20 s': Fault(read_only(20)),
    'memcached killed': Fault(killed('memcached')),
    'keystone away': Fault(killed('keystone', down_s=10)),
    'load balancer restarted': Fault(stopped('haproxy')),
    'compute cut off for 60 s': Fault(cut_off(1), refuses=True),
    'libvirt of a compute killed': Fault(killed('libvirt-compute1'), needs='libvirt'),
    'compute cut off from broker': Fault(unreachable('rabbitmq', 60, compute='compute1'), refuses=True),
}
