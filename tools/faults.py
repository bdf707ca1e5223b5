#!/usr/bin/env python3
"""Breaks parts of the fleet of tools/cluster.sh while clients work; proves that nothing was lost, doubled or leaked.

usage: tools/faults.py [--only NAME ...] [--load 15] [--clients 8] [--servers 40] [--seed N] [--history DIRECTORY]
           [--real 3] [--rst] [--list]

For each fault: clients create, delete, stop, start, pause, reboot, rebuild and resize servers; after a third of the
load time the fault begins, and it ends when its own time is over; the clients go on to the end. Then everything
settles, and the answers of clients are compared with the API, the databases, the broker and the hypervisors: see
tools/load.py. The faults are in tools/cluster/breaking.py.

The table has for each fault: the machine's load average before it, requests, those that were answered with 5xx or not
at all, the longest time in which no request succeeded, seconds until everything rested, and what differed. Exits with
1 and a line for each difference.
"""
import argparse
import json
import os
import pathlib
import random
import sys
import threading

import crash_test
import load
from cluster import hosts
from cluster import parts
from cluster import prepare
from cluster import settings
from cluster.breaking import FAULTS
from cluster.breaking import rabbitmqctl

WIDTHS = (29, 6, 9, 7, 7, 8, 7)
HEAD = ('fault', 'load', 'requests', 'failed', 'gap s', 'rest s', 'differ')


class Fleet(load.Cloud):
    """The compute API of the fleet behind its load balancer, as the administrator."""

    def __init__(self, rng=random):
        self.settings = settings.load()
        if self.settings is None:
            raise SystemExit('There is no fleet here. Build one with: tools/cluster.sh up')
        super().__init__(settings.url('haproxy', '/v2.1'), {
            'api': self.settings.database_url('nova_api'),
            **{cell: self.settings.database_url(f'nova_{cell}') for cell in self.settings.cell_names or ['cell1']}})
        self.parts = {part.name: part for part in parts.all_of(self.settings)}
        self.rng = rng
        self._lock, self._token = threading.Lock(), None

    def token(self):
        with self._lock:
            if self._token is None:
                self._token = prepare.cloud(self.settings).session.get_token()
            return self._token

    def guests(self):
        files = (settings.DIRECTORY / 'nova').glob('compute*/fake/*.json')
        simulated = {path.parent.parent.name: {uuid: guest['power_state']
                                               for uuid, guest in json.loads(path.read_text()).items()}
                     for path in files}
        return {**simulated, **{name: hosts.guests(name) for name in self.settings.libvirt_names}}

    def queues(self):
        rows = [line.split() for line in rabbitmqctl(self, 'list_queues', 'name', 'messages').splitlines()[1:]]
        return {name: int(count) for name, count in rows if not name.startswith('reply_')}


def kind(admin, image, flavors, most):
    """The load.Kind of servers of an image, with flavors by name."""
    known = [flavor.id for flavor in admin.compute.flavors() if flavor.name in flavors]
    return load.Kind({'flavorRef': known[0], 'imageRef': admin.image.find_image(image).id}, known, most)


def line(cells):
    return f'{cells[0]:<{WIDTHS[0]}}' + ''.join(f'{cell:>{width}}' for cell, width in
                                                zip(cells[1:], WIDTHS[1:], strict=True))


def row(name, busy, result):
    return (name, f'{busy:.1f}', str(result.requests), str(result.failed), f'{result.gap:.1f}', f'{result.rested:.1f}',
            str(len(result.found)))


def table(rows):
    """The lines of the table of doc/source/admin/fleet-faults.rst."""
    rule = ' '.join('=' * (width if number else 35) for number, width in enumerate(WIDTHS))
    def text(cells):
        return ' '.join(cell.ljust(width if number else 35) for number, (cell, width) in
                        enumerate(zip(cells, WIDTHS, strict=True))).rstrip()
    return [rule, text(HEAD), rule, *(text((f'{cells[0]}', *cells[1:])) for cells in rows), rule]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--only', nargs='+', choices=list(FAULTS), metavar='NAME',
                        help='these faults, without it all that this fleet can have')
    parser.add_argument('--load', type=float, default=15, help='seconds of load besides the fault itself')
    parser.add_argument('--clients', type=int, default=8)
    parser.add_argument('--servers', type=int, default=40, help='servers at once, about')
    parser.add_argument('--real', type=int, default=3, help='servers at once, at most, on computes with libvirt')
    parser.add_argument('--seed', type=int, default=random.SystemRandom().randrange(10 ** 6))
    parser.add_argument('--history', type=pathlib.Path, metavar='DIRECTORY',
                        help='where every call and answer is written, a file for each fault')
    parser.add_argument('--rst', action='store_true', help='print the table of the documentation in the end')
    parser.add_argument('--list', action='store_true', help='name the faults')
    options = parser.parse_args()
    if options.list:
        print('\n'.join(FAULTS))
        return 0
    sys.stdout.reconfigure(line_buffering=True)
    rng, failed, rows = random.Random(options.seed), [], []
    fleet = Fleet(rng)
    admin = prepare.cloud(fleet.settings)
    fleet.json('PUT', f'/os-quota-sets/{admin.current_project_id}', {
        'quota_set': {'instances': -1, 'cores': -1, 'ram': -1}})
    body, flavors, _ = kind(admin, 'small', ('m1.nano', 'm1.tiny'), options.servers)
    more = [kind(admin, 'guest', prepare.REAL_FLAVORS, options.real)] if fleet.settings.libvirt else []
    print(f'seed {options.seed}; {fleet.settings.database}, {fleet.settings.computes} computes in '
          f'{fleet.settings.cells} {"cells" if fleet.settings.cells > 1 else "cell"}, '
          f'{fleet.settings.libvirt} with libvirt, {options.clients} clients')
    print(line(HEAD))
    crash_test.clean(fleet)
    possible = [name for name, fault in FAULTS.items() if not fault.needs or getattr(fleet.settings, fault.needs)]
    for name in set(options.only or ()).difference(possible):
        raise SystemExit(f'"{name}" needs a fleet that was built with --{FAULTS[name].needs}.')
    for name in options.only or possible:
        fault, busy = FAULTS[name], os.getloadavg()[0]
        result = load.run(fleet, lambda fault=fault: fault.function(fleet), body, flavors, load_s=options.load,
                          clients=options.clients, servers=options.servers, rng=rng, more=more)
        if fault.lossless and result.failed:
            result.found.append(f'{result.failed} requests failed and none may')
        refused = len(result.history.refused)
        if refused and not fault.refuses:
            result.found.append(f'servers refused, and none may: {refused}')
        rows.append(row(name, busy, result))
        print(line(rows[-1]))
        for sentence in result.found:
            print('  ' + sentence)
        if refused:
            print(f'  servers refused, because every host of their kind was down: {refused}')
        if result.found or result.failed:
            print(f'  answers: {dict(sorted(result.history.counts.items()))}')
        if options.history:
            options.history.mkdir(parents=True, exist_ok=True)
            result.history.dump(options.history / f'{name.replace(" ", "-")}.jsonl')
        failed += result.found
        crash_test.clean(fleet)
    if options.rst:
        print('\n' + '\n'.join(table(rows)))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    sys.exit(main())
