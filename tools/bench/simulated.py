"""Many computes in one process, as the broker, the conductors and the database see them.

A simulated compute is its messages, which go over the wire as those of nova.runtime.heartbeat and the compute's
manager do, at the default intervals: every [DEFAULT] report_interval one to itself and, when it has come back, the
cast heartbeat; every 12th time the call register_service; what the host has, unchanged, when it is reported
again. It has no process, no guests, and shares its queue with ninety-nine others.

Run by tools/bench/cluster.py.
"""
import argparse
import collections
import concurrent.futures
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import uuid

TREE = pathlib.Path(__file__).resolve().parents[2]
SHARED_BY = 100              # simulated computes of one queue
CALLERS = 16
LATE = 2                     # report intervals after which a heartbeat is late


def host(number):
    return f'simulated-{number}'


# ---- the process that sends

class Computes:
    """
    :param url: transport URL
    :param number: of them
    """

    def __init__(self, url, number, interval):
        import amqp
        from nova import conf as nova_conf
        from nova import context
        from nova.conductor import interface
        from nova.rpc import bus as rpc_bus
        from nova.rpc import versions
        from nova.rpc.rabbit import settings

        place = url.rpartition('@')[2].strip('/')
        self.number, self.interval, self.version = number, interval, versions.VERSION
        # one connection is one thread's, and one that takes messages does nothing else: sending looks for what came
        self._sending, self._taking, self._telling = (amqp.Connection(place, 'guest', 'guest') for _ in range(3))
        self._came_back = collections.deque()
        self._context = context.admin_context()
        self._packed = {f'_context_{name}': value for name, value in self._context.to_dict().items()}
        conf = nova_conf.new(files=[])
        bus = rpc_bus.Bus(conf, url)
        self._topology = settings.Topology(conf.oslo_messaging_rabbit, ())
        self._conductor = bus.client(interface.INTERFACE)
        self._callers = concurrent.futures.ThreadPoolExecutor(CALLERS)
        self._calls, self.sent, self.returned = set(), 0, 0
        self._message, self._node = amqp.Message, inventory(tempfile.mkdtemp())
        self._probes = [self._made(each, 'arrive', '1.0', {'token': str(each)}, 'nova.probe')
                        for each in range(number)]
        self._heartbeats = [self._made(each, 'heartbeat', '1.1', {
            'identity': host(each), **who(each, self.version)}) for each in range(number)]

    def run(self, seconds):
        self._sending.connect()
        self._channel = self._sending.channel()
        self._take()
        threading.Thread(target=self._drain, daemon=True).start()
        begin, turn = time.monotonic(), 0
        while time.monotonic() < begin + seconds:
            for number in range(self.number):
                due = begin + (turn + number / self.number) * self.interval
                if (ahead := due - time.monotonic()) > 0.005:
                    time.sleep(ahead)
                self._channel.basic_publish(self._probes[number], 'nova', queue(number))
                self.sent += 1
                if (turn + number) % 12 == 0:
                    self._call('register_service', identity=host(number), **who(number, self.version))
                if (turn + number) % 60 == 0:
                    self._call('report_nodes', host=host(number), nodes=[{**self._node, 'node': host(number)}])
            turn += 1

    def _take(self):
        """The queues as the driver declares them, and who takes from them."""
        self._taking.connect()
        self._acks = channel = self._taking.channel()
        for number in range(0, self.number, SHARED_BY):
            wanted = self._topology.topic_queue('nova', queue(number))
            channel.queue_declare(wanted.name, durable=wanted.durable, auto_delete=wanted.auto_delete,
                                  arguments=wanted.arguments)
            channel.queue_bind(queue(number), 'nova', queue(number))
            channel.basic_consume(queue(number), callback=self._came)

    def _came(self, message):
        """It has come back: this compute is alive."""
        self._came_back.append((message.delivery_tag, int(message.properties['correlation_id'])))

    def _drain(self):
        self._telling.connect()
        channel = self._telling.channel()
        while True:
            self._taking.drain_events()
            while self._came_back:
                tag, number = self._came_back.popleft()
                self._acks.basic_ack(tag)
                channel.basic_publish(self._heartbeats[number], 'nova', 'conductor')
                self.returned += 1

    def _made(self, number, method, version, arguments, namespace=None):
        """A message as oslo.messaging makes it, made once."""
        body = {**self._packed, 'method': method, 'args': arguments, 'version': version,
                '_unique_id': uuid.uuid4().hex, **({'namespace': namespace} if namespace else {})}
        return self._message(
            json.dumps({'oslo.version': '2.0', 'oslo.message': json.dumps(body)}), content_type='application/json',
            content_encoding='utf-8', delivery_mode=2, correlation_id=str(number))

    def _call(self, method, **arguments):
        future = self._callers.submit(getattr(self._conductor, method), self._context, **arguments)
        self._calls.add(future)
        future.add_done_callback(self._calls.discard)


def queue(number):
    return f'compute.simulated-{number // SHARED_BY}'


def who(number, version):
    return {'host': host(number), 'binary': 'nova-compute', 'topic': 'compute', 'version': version}


def inventory(directory):
    """Columns of compute_nodes as a fake host has them."""
    import dataclasses
    from nova import conf as nova_conf
    from nova.virt import fake

    conf = nova_conf.new(files=[], fake__state_dir=str(directory))
    one = dataclasses.asdict(fake.FakeDriver(conf, 'simulated', None).resources()[0])
    del one['pci_devices'], one['uptime'], one['numa_topology']
    return {**one, 'cpu_allocation_ratio': 4.0, 'ram_allocation_ratio': 1.0, 'disk_allocation_ratio': 1.0,
            'capabilities': {}}


# ---- the measurement

def rows(fleet, number):
    """The rows of the computes, which have just been heard of."""
    import sqlalchemy as sa
    from nova import utils
    from nova.db.tables import api as tables_api
    from nova.db.tables import cell as tables_cell
    from nova.rpc import versions

    with fleet.api_db.reader() as conn:
        cell = conn.execute(sa.select(tables_api.cells.c.uuid).where(tables_api.cells.c.name != 'cell0')).scalar_one()
    with fleet.api_db.writer() as conn:
        conn.execute(sa.insert(tables_api.host_mappings), [
            {'host': host(each), 'cell_uuid': cell} for each in range(number)])
    now, one = utils.utcnow(), inventory(fleet.directory)
    one = {name: value for name, value in one.items() if name in tables_cell.compute_nodes.c}
    with fleet.cell_db.writer() as conn:
        for begin in range(0, number, 1000):
            some = range(begin, min(begin + 1000, number))
            conn.execute(sa.insert(tables_cell.services), [
                {**who(each, versions.VERSION), 'uuid': str(uuid.uuid4()), 'availability_zone': 'nova',
                 'created_at': now, 'last_seen_at': now, 'disabled': False, 'forced_down': False,
                 'identity': host(each)} for each in some])
            conn.execute(sa.insert(tables_cell.compute_nodes), [
                {**one, 'uuid': str(uuid.uuid4()), 'host': host(each), 'node': host(each), 'created_at': now,
                 'updated_at': now, 'change_number': utils.change_number()} for each in some])
        conn.commit()


def measure(bench, number, seconds, interval=10):
    import sqlalchemy as sa
    from nova.db.tables.cell import services

    fleet = bench.fleet
    rows(fleet, number)
    process = subprocess.Popen(
        [sys.executable, '-W', 'ignore', __file__, fleet.broker.url, str(number), str(interval),
         str(seconds + 3 * interval)], cwd=TREE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, 'PYTHONPATH': str(TREE)})
    try:
        time.sleep(2 * interval)         # every one of them has been heard of
        before, cpu, late, oldest = time.perf_counter(), fleet.usage(), 0, 0
        while time.perf_counter() < before + seconds:
            with fleet.cell_db.reader() as conn:
                now = time.time()
                seen = [moment for moment, in conn.execute(sa.select(services.c.last_seen_at).where(
                    services.c.topic == 'compute'))]
            ages = [now - moment.replace(tzinfo=datetime.UTC).timestamp() for moment in seen]
            late, oldest = max(late, sum(age > LATE * interval for age in ages)), max(oldest, *ages)
            time.sleep(1)
        wall = time.perf_counter() - before
        spent = {name: round((value - cpu[name][0]) * 100 / wall, 1) for name, (value, _rss) in fleet.usage().items()}
        memory = {name: rss for name, (_cpu, rss) in fleet.usage().items()}
    finally:
        process.terminate()
        said = process.communicate()[0].strip()
    bench.machine()
    bench.record(f'{number} simulated computes', late=late, oldest_s=round(oldest, 1), sender=said)
    bench.record('  percent of a processor', **spent)
    bench.record('  memory, MiB', **memory)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('url')
    parser.add_argument('number', type=int)
    parser.add_argument('interval', type=int)
    parser.add_argument('seconds', type=int)
    args = parser.parse_args()
    import signal
    computes = Computes(args.url, args.number, args.interval)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        computes.run(args.seconds)
    finally:
        print(f'sent={computes.sent} returned={computes.returned}', flush=True)
        os._exit(0)


if __name__ == '__main__':
    main()
