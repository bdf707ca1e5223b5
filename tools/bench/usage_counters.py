#!/usr/bin/env python3
"""Cost of the counters of many servers: processor time of hosts and conductor, and bytes in the database. ADR 0032.

usage: tools/bench/usage_counters.py [--servers 1000] [--hosts 20] [--minutes 30] [database ...]

Prints the share of one processor that samples every 20 s take: reading a fake driver and the message, storing with
the coarser steps, and the reads of an hour's series.
"""
import argparse
import dataclasses
import pathlib
import sys
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

T0 = 1_800_000_000


@dataclasses.dataclass
class Cost:
    """Processor seconds for each second of time, and bytes of full rings of 1,000 servers."""

    message: float
    store: float
    read_s: float
    stored_bytes: int


def measure(db, servers=1000, hosts=20, minutes=30):
    """Return the Cost. Processor time is that of this process; that of a database server is not in it."""
    import orjson
    from nova.db.servers import counter_rings as stored_rings
    from nova.objects import counter_rings
    from nova.objects import counters
    from nova.rpc import serializer
    from nova.virt.fake import machine

    per_host = servers // hosts
    machines = []
    for _ in range(hosts):
        made = machine.Machine('host', None, {}, {})
        made.guests = {str(uuid.uuid4()): {'power_state': 1, 'vcpus': 2, 'memory_mb': 2048} for _ in range(per_host)}
        machines.append(made)
    samples = minutes * 60 // counters.SAMPLE_S
    message = store = 0.0
    for number in range(samples):
        now = T0 + number * counters.SAMPLE_S
        for host, made in enumerate(machines):
            begin = time.process_time()
            text = orjson.dumps(serializer.to_primitive(counters.dumped(made.counters())))
            found = counters.loaded(orjson.loads(text))
            sent = time.process_time()
            db.run(stored_rings.record, f'host{host}', float(now), found, float(now))
            store += time.process_time() - sent
            message += sent - begin
    owner = next(iter(machines[0].guests))
    begin = time.process_time()
    with db.reader() as conn:
        stored = stored_rings.read(conn, owner, 20)
    counter_rings.series(stored, 20, T0, T0 + 3600)
    full = sum(len(counter_rings.Ring(step).data) for step in counter_rings.STEPS) * 1000
    return Cost(message / samples / counters.SAMPLE_S, store / samples / counters.SAMPLE_S,
                time.process_time() - begin, full)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('databases', nargs='*', default=['sqlite'])
    parser.add_argument('--servers', type=int, default=1000)
    parser.add_argument('--hosts', type=int, default=20)
    parser.add_argument('--minutes', type=int, default=30)
    args = parser.parse_args()
    from nova.db import engine
    from nova.db.tables import cell as tables_cell
    from nova.tests.integration import servers

    for kind in args.databases:
        with servers.DATABASES[kind]() as database:
            db = engine.Database(database('bench'))
            tables_cell.metadata.create_all(db.engine)
            cost = measure(db, args.servers, args.hosts, args.minutes)
            print(f'{kind}: {args.servers} servers on {args.hosts} hosts: messages {cost.message:.2%}, store '
                  f'{cost.store:.2%}, together {cost.message + cost.store:.2%} of a processor; one series '
                  f'{cost.read_s * 1000:.1f} ms; {cost.stored_bytes / 1e6:.0f} MB for 1,000 servers', flush=True)
            db.dispose()


if __name__ == '__main__':
    main()
