#!/usr/bin/env python3
"""Measures the embedded network service: ports, a group's change on 20 hosts, rules for nft, traffic of guests.

usage: tools/bench/network/services.py [--url DATABASE | --server KIND] [--threads 50] [--ports 2000] [--seconds 10]
                              [--changes 20] [--only-traffic | --stages | --only-allocation]

As root, first the time of a group's change: HOSTS agents and their privileged parts as processes, each with filters in
a network namespace of its own, and two network services, over a RabbitMQ that is started for it. It counts from before
the rule is in the database until the kernel of the last host has it, and, of a rule that is made while no network
service runs, from when the first one is back. Heartbeats and signatures are left out.

Allocation is on SQLite in a temporary directory, on the server that --url names (an empty database; its tables
stay), or on one of --server, which is started for it and syncs its commits. Each thread makes a server's port and gives
it back; statements, transactions and processor time of this process are those of one such port. --only-allocation ends
there. The hosts with databases are services in this process, with drivers that touch no host, on the in-process bus:
what is measured is reading their state and notifying them. The last rows make the text of 2,000 ports for nft and, as
root, have nft check it. At last, as root, TCP between guests (traffic.py), and what nova-network as an agent
has in memory. --only-traffic begins there; --stages says what each part of the way costs.
"""
import argparse
import contextlib
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))

from nova import conf as nova_conf
from nova import context
from nova.db import engine
from nova.db import schema
from nova.db.networks import networks
from nova.db.networks import security_groups
from nova.db.tables import network as t
from nova.network import fake
from nova.network import interface
from nova.network import manager
from nova.network import setup
from nova.network.linux import rules
from nova.rpc import bus

import ports as network_ports
import traffic as network_traffic

HOSTS = 20
SETTLE_S = 5


class Seen(fake.FakeDriver):
    state = None

    def refresh(self, load):
        self.state = load()
        return []


def show(name, **figures):
    print(f'{name:58}', '  '.join(f'{key} {value}' for key, value in figures.items()), flush=True)


def spread(conf, db, ctx, ports):
    """(seconds from a group's change to the last of HOSTS hosts, the state of one of them)."""
    real = bus.Bus(conf, 'nova-inprocess:///bench')
    made, servers = [], []
    for number in range(HOSTS):
        each = manager.NetworkManager(conf, db, f'direct{number}', Seen(conf))
        servers.append(real.serve(interface.INTERFACE, each, f'direct{number}'))
        made.append(each)
    for number in range(ports):
        made[number % HOSTS].allocate_for_instance(
            ctx, instance=network_ports.instance(), requested_networks=None, security_groups=None,
            host=f'direct{number % HOSTS}')
    for each, server in zip(made, servers, strict=True):
        each.start()
        server.start()
    rule = str(uuid.uuid4())
    with db.writer() as conn:
        group = security_groups.ensure_default(conn, network_ports.PROJECT)
        networks.insert(conn, t.security_group_rules, [{
            'id': rule, 'project_id': network_ports.PROJECT, 'security_group_id': group, 'direction': 'ingress',
            'ethertype': 'IPv4', 'protocol': 'tcp', 'port_range_min': 22, 'port_range_max': 22,
            'remote_ip_prefix': None, 'remote_group_id': None, 'description': ''}])
    begun = time.monotonic()
    real.client(interface.INTERFACE).refresh_ports(ctx, port_ids=[])
    while not all(any(row['id'] == rule for row in each.driver.state.rules[group]) for each in made):
        time.sleep(0.005)
    taken = time.monotonic() - begun
    for server in servers:
        server.stop()
    return taken, made[0].driver.state


def changes(url, ports, number):
    """Times of rules from the database to the kernels of agents' hosts."""
    import fleet as network_fleet
    from nova.tests.integration import servers

    with servers.rabbitmq() as broker, network_fleet.Fleet(url, broker.url, HOSTS, ports) as fleet:
        time.sleep(SETTLE_S)
        found = []
        for _ in range(number):
            found.append(fleet.change())
            time.sleep(1)
        last = sorted(taken for _first, taken in found)
        show(f"a group's change to the last of {HOSTS} agents, {ports} ports",
             seconds=round(statistics.median(last), 3), worst=round(last[-1], 3),
             first_host=round(statistics.median(first for first, _last in found), 3))
        missed = sorted(fleet.unheard()[1] for _ in range(max(1, number // 4)))
        show('a missed one, from the return of a network service', seconds=round(statistics.median(missed), 3),
             worst=round(missed[-1], 3))
        time.sleep(SETTLE_S)
        show('messages of an agent in quiet times', per_second=round(fleet.messages(10) / HOSTS, 2))


def memory(path):
    """What an agent with a guest has in memory: with all that it shares, and its share of that (proc(5), Pss), which
    alone can be added up with those of the processes that it has started.
    """
    from nova.tests.support import network_agents as agents
    from nova.tests.support import network_overlay as overlay

    path.mkdir()
    with contextlib.ExitStack() as stack:
        cloud = agents.Cloud(stack, path)
        network = cloud.network()
        overlay.Guest(cloud, cloud.hosts[0], network['id'], 'guest', network['project_id'], None).dhcp()
        pids = cloud.hosts[0].agent.pids()
        shares = [int(pathlib.Path(f'/proc/{pid}/smaps_rollup').read_text().partition('Pss:')[2].split()[0]) / 1024
                  for pid in pids]
        show('an agent in memory', megabytes=round(agents.resident(pids[0])), its_share=round(shares[0]),
             share_with_its_processes=round(sum(shares)), processes=len(pids))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--url', help='of an empty database')
    parser.add_argument('--threads', type=int, default=50)
    parser.add_argument('--ports', type=int, default=2000)
    parser.add_argument('--seconds', type=int, default=10)
    parser.add_argument('--changes', type=int, default=20)
    parser.add_argument('--only-traffic', action='store_true')
    parser.add_argument('--stages', action='store_true')
    parser.add_argument('--server', choices=('mariadb', 'mysqlclient', 'postgresql'))
    parser.add_argument('--only-allocation', action='store_true')
    options = parser.parse_args()
    if options.stages:
        with tempfile.TemporaryDirectory() as directory:
            network_traffic.stages(pathlib.Path(directory), show)
        return
    if options.only_traffic:
        with tempfile.TemporaryDirectory() as directory:
            network_traffic.measure(pathlib.Path(directory), show)
            memory(pathlib.Path(directory) / 'agents')
        return
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        conf = nova_conf.new(files=[], network__driver='fake', network__default_cidr='10.32.0.0/12')
        url = options.url or f'sqlite:///{directory}/api.sqlite'
        if options.server:
            url = stack.enter_context(network_ports.server(options.server))
        db = engine.Database(url)
        schema.sync(db, 'api')
        setup.bootstrap(conf, db)
        db.dispose()
        fleet = not options.only_allocation and not os.geteuid()
        if fleet and shutil.which('rabbitmq-server', path=os.environ['PATH'] + ':/usr/sbin'):
            changes(url, options.ports, options.changes)            # before there are threads: it forks
        db = engine.Database(url)
        ctx, made = context.admin_context(), manager.NetworkManager(conf, db, 'here', Seen(conf))
        show(f'ports made and given back, {options.threads} threads, {db.url.get_backend_name()}',
             **network_ports.rate(made, ctx, options.threads, options.seconds))
        if options.only_allocation:
            db.dispose()
            return
        taken, state = spread(conf, db, ctx, options.ports)
        show(f"a group's change to the last of {HOSTS} hosts with databases", seconds=round(taken, 3))
        begun = time.monotonic()
        state.ports = [port for number in range(-(-options.ports // max(len(state.ports), 1))) for port in state.ports]
        for number, port in enumerate(state.ports):
            state.ports[number] = type(port)(**{**vars(port), 'device': f'tap{number:011}',
                                                'addresses': [f'10.40.{number >> 8}.{number & 255}']})
        text = rules.script('bench', state, {})
        show(f'text of the filters of {len(state.ports)} ports', seconds=round(time.monotonic() - begun, 3),
             kilobytes=len(text) // 1024)
        if not os.geteuid():
            begun = time.monotonic()
            subprocess.run(['nft', '--check', '-f', '-'], input=text, text=True, check=True)
            show('nft reads and checks it', seconds=round(time.monotonic() - begun, 3))
        db.dispose()
        if not os.geteuid():
            network_traffic.measure(pathlib.Path(directory), show)
            memory(pathlib.Path(directory) / 'agents')


if __name__ == '__main__':
    main()
