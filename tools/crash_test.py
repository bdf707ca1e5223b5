#!/usr/bin/env python3
"""Kills the all-in-one at random moments of many boots, starts it again, and proves that nothing was lost or leaked.

usage: tools/crash_test.py [--driver fake|libvirt] [--rounds 10] [--servers 12] [--seed N] [--guest DIRECTORY]

In each round clients create, stop, start and delete servers; at a random moment the process is killed with SIGKILL and
started again. In the end, when everything has settled, what clients were told is compared with the API, both
databases, the hypervisor, the disks and the addresses:

- a server whose creation was acknowledged is there, ACTIVE, SHUTOFF or in ERROR with a reason, unless a delete was sent
- a server whose deletion was acknowledged is gone
- no task is in progress, no server in BUILD
- usage on the compute nodes is the sum of the servers; mappings, request specs and servers are the same set
- ports and addresses belong to servers that exist, each address once, as the servers' network information says
- the hypervisor's guests are the servers, running if and only if ACTIVE; no other instance directory is left

Exits with 1 and a line for each difference.
"""
import argparse
import collections
import http.client
import json
import pathlib
import random
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent import futures

from local_cloud import LocalCloud

SETTLE_S = 180               # seconds that the cloud may take to finish what was interrupted
CLIENTS = 4


class History:
    """What clients asked for and what they were told."""

    def __init__(self):
        self.lock = threading.Lock()
        self.created = set()             # acknowledged
        self.delete_sent = set()         # a delete left the client, the answer may not have come back
        self.delete_acknowledged = set()
        self.counts = collections.Counter()


class Client:
    """Makes requests until it is told to stop, and writes down what it was told."""

    def __init__(self, cloud, bodies, history, servers, rng):
        self.cloud, self.bodies, self.history, self.servers, self.rng = cloud, bodies, history, servers, rng
        self.number = 0

    def run(self, stop):
        while not stop.is_set():
            try:
                self.request()
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)             # killed meanwhile

    def request(self):
        with self.history.lock:
            known = [uuid for uuid in self.history.created if uuid not in self.history.delete_sent]
        choice = self.rng.random()
        if not known or choice < 0.5 and len(known) < self.servers:
            self.create()
        elif choice < 0.7:
            self.delete(self.rng.choice(known))
        else:
            self.act(self.rng.choice(known))

    def count(self, what, status, data):
        with self.history.lock:
            self.history.counts[f'{what} {status}'] += 1
        if status >= 500:
            raise RuntimeError(f'the API answered {what} with {status}: {data[:300]!r}')

    def create(self):
        self.number += 1
        body = {'server': {**self.bodies, 'name': f'crash-{threading.get_ident()}-{self.number}'}}
        status, data = self.cloud.call('POST', '/servers', body, version='2.37')
        if status == 202:
            with self.history.lock:
                self.history.created.add(json.loads(data)['server']['id'])
        self.count('create', status, data)

    def delete(self, uuid):
        with self.history.lock:
            self.history.delete_sent.add(uuid)
        status, data = self.cloud.call('DELETE', '/servers/' + uuid)
        if status in (204, 404):
            with self.history.lock:
                self.history.delete_acknowledged.add(uuid)
        self.count('delete', status, data)

    def act(self, uuid):
        action = self.rng.choice(['os-stop', 'os-start', 'reboot'])
        body = {action: {'type': 'HARD'} if action == 'reboot' else None}
        self.count(action, *self.cloud.call('POST', f'/servers/{uuid}/action', body))


def settled(cloud):
    """The servers, or None while something is going on."""
    servers = cloud.json('GET', '/servers/detail?all_tenants=1&limit=1000')['servers']
    busy = [s for s in servers if s['OS-EXT-STS:task_state'] or s['status'] in ('BUILD', 'REBOOT', 'HARD_REBOOT')]
    return None if busy else servers


def rows(path, statement):
    connection = sqlite3.connect(f'file:{path}?mode=ro', uri=True)
    connection.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in connection.execute(statement)]
    finally:
        connection.close()


def guests(cloud, ids):
    """{uuid: running} as the hypervisor has it."""
    if cloud.driver == 'fake':
        found = {}
        for path in cloud.state.glob('fake-guests/*.json'):
            found.update({uuid: guest['power_state'] == 1 for uuid, guest in json.loads(path.read_text()).items()})
        return found
    virsh = ['virsh', '-c', 'qemu:///system', 'list', '--uuid']
    everything = set(subprocess.check_output([*virsh, '--all'], text=True).split())
    running = set(subprocess.check_output(virsh, text=True).split())
    return {uuid: uuid in running for uuid in everything if uuid in ids}


def differences(cloud, history, servers):
    """Sentences, one for each thing that is not as it must be."""
    found = []
    api, cell = cloud.state / 'api.sqlite', cloud.state / 'cell1.sqlite'
    shown = {server['id']: server for server in servers}
    for uuid in history.created:
        if uuid not in shown and uuid not in history.delete_sent:
            found.append(f'server {uuid} was acknowledged and is lost')
        if uuid in shown and uuid in history.delete_acknowledged:
            found.append(f'server {uuid} was deleted and is there, {shown[uuid]["status"]}')
    for uuid, server in shown.items():
        if server['status'] not in ('ACTIVE', 'SHUTOFF', 'ERROR'):
            found.append(f'server {uuid} is {server["status"]}')
        if server['status'] == 'ERROR' and not server.get('fault', {}).get('message'):
            found.append(f'server {uuid} is in ERROR without a reason')

    instances = {row['uuid']: row for row in rows(cell, 'SELECT * FROM instances')}
    if set(instances) != set(shown):
        found.append(f'the API shows {len(shown)} servers, the cell has {len(instances)}')
    for table in ('instance_mappings', 'request_specs'):
        listed = {row['instance_uuid'] for row in rows(api, f'SELECT instance_uuid FROM {table}')}
        found += [f'{table} has {uuid}, the cell has not' for uuid in listed - set(instances)]
        found += [f'{table} lacks {uuid}' for uuid in set(instances) - listed]
    found += [f'action {row["action"]} of {row["instance_uuid"]} is still open'
              for row in rows(cell, 'SELECT * FROM instance_actions WHERE finished_at IS NULL')]

    for node in rows(cell, 'SELECT * FROM compute_nodes'):
        here = [row for row in instances.values() if row['host'] == node['host'] and row['node'] == node['node']]
        for column, used in (('vcpus_used', 'vcpus'), ('memory_mb_used', 'memory_mb')):
            total = sum(row[used] for row in here)
            if node[column] != total:
                found.append(f'{node["node"]}: {column} is {node[column]}, its servers have {total}')

    ports = rows(api, "SELECT id, device_id FROM ports WHERE device_id != ''")
    addresses = rows(api, 'SELECT address, port_id FROM addresses WHERE port_id IS NOT NULL')
    found += [f'port {port["id"]} belongs to {port["device_id"]}, which is gone'
              for port in ports if port['device_id'] not in instances]
    device_of = {port['id']: port['device_id'] for port in ports}
    held = collections.defaultdict(set)
    for row in addresses:
        if row['port_id'] not in device_of:
            found.append(f'address {row["address"]} belongs to port {row["port_id"]}, which has no server')
        else:
            held[device_of[row['port_id']]].add(row['address'])
    for uuid, server in shown.items():
        said = {ip['addr'] for ips in server['addresses'].values() for ip in ips}
        if said != held[uuid] and server['status'] != 'ERROR':
            found.append(f'server {uuid} shows addresses {sorted(said)}, the network has {sorted(held[uuid])}')
    twice = [address for address, n in collections.Counter(a for s in held.values() for a in s).items() if n > 1]
    found += [f'address {address} is held twice' for address in twice]

    there = guests(cloud, history.created | set(shown))
    for uuid, running in there.items():
        if uuid not in shown:
            found.append(f'the hypervisor has guest {uuid}, which is no server')
        elif running != (shown[uuid]['status'] == 'ACTIVE') and shown[uuid]['status'] != 'ERROR':
            found.append(f'guest {uuid} is {"running" if running else "off"}, its server {shown[uuid]["status"]}')
    found += [f'server {uuid} is {server["status"]} and has no guest' for uuid, server in shown.items()
              if uuid not in there and server['status'] in ('ACTIVE', 'SHUTOFF')]
    directory = cloud.state / 'instances'
    if directory.is_dir():
        found += [f'instance directory {path.name} is left' for path in directory.iterdir()
                  if len(path.name) == 36 and path.name not in shown]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--driver', choices=('fake', 'libvirt'), default='fake')
    parser.add_argument('--rounds', type=int, default=10)
    parser.add_argument('--servers', type=int, default=12, help='servers at once')
    parser.add_argument('--seed', type=int, default=None)
    parser.add_argument('--guest', help='directory of the guest image, for libvirt')
    parser.add_argument('--keep', action='store_true', help='leave the state directory')
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(10 ** 6)
    rng = random.Random(seed)
    print(f'crash test: driver {args.driver}, {args.rounds} rounds, seed {seed}', flush=True)
    options = ['[quota]', 'instances = -1', 'cores = -1', 'ram = -1']
    if args.driver == 'fake':
        options += ['[fake]', 'persist = true', 'delay_ms = 30']
    else:
        options += ['[network]', 'bridge = br-crash', 'cidr = 10.46.0.0/24']
    cloud = LocalCloud(args.driver, options)
    failed = ['it did not get to the end']
    try:
        cloud.start()
        if args.driver == 'fake':
            (cloud.state / 'empty.img').write_bytes(b'\0' * 4096)
            image = cloud.add_image('crash', cloud.state / 'empty.img', 'raw')
        else:
            image = cloud.add_image('crash', pathlib.Path(args.guest) / 'guest.qcow2', 'qcow2')
        flavor = cloud.json('POST', '/flavors', {'flavor': {
            'name': 'crash', 'ram': 128, 'vcpus': 1, 'disk': 1}})['flavor']['id']
        network = cloud.json('GET', '/v2.0/networks', service='network')['networks'][0]['id']
        bodies = {'flavorRef': flavor, 'imageRef': image, 'networks': [{'uuid': network}]}
        history = History()
        longest = 1.5 if args.driver == 'fake' else 8
        for number in range(args.rounds):
            stop = threading.Event()
            with futures.ThreadPoolExecutor(CLIENTS) as pool:
                jobs = [pool.submit(Client(cloud, bodies, history, args.servers, random.Random(rng.random())).run,
                                    stop) for _ in range(CLIENTS)]
                time.sleep(rng.uniform(0.1, longest))
                cloud.kill()
                stop.set()
                for job in jobs:
                    job.result()
            started = cloud.start()
            print(f'  round {number + 1}: {len(history.created)} created, {len(history.delete_sent)} deleted, '
                  f'serving again after {started:.1f} s', flush=True)
        begin = time.monotonic()
        while (servers := settled(cloud)) is None and time.monotonic() - begin < SETTLE_S:
            time.sleep(0.2)
        print(f'settled after {time.monotonic() - begin:.1f} s; answers: {dict(sorted(history.counts.items()))}')
        if servers is None:
            servers = cloud.json('GET', '/servers/detail?all_tenants=1&limit=1000')['servers']
        # what was given back a moment ago may still be on its way through the network service
        for _ in range(50):
            failed = differences(cloud, history, servers)
            if not failed:
                break
            time.sleep(0.2)
            servers = settled(cloud) or servers
        states = collections.Counter(server['status'] for server in servers)
        for sentence in failed:
            print('  ' + sentence)
        print(f'{len(servers)} servers: {dict(states)}; {len(failed)} differences')
        if failed:
            print(cloud.last_words(60))
        for server in servers:
            cloud.call('DELETE', '/servers/' + server['id'])
        begin = time.monotonic()
        while cloud.json('GET', '/servers?all_tenants=1')['servers'] and time.monotonic() - begin < 60:
            time.sleep(0.2)
    finally:
        cloud.close(keep=args.keep)
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
