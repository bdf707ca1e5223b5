#!/usr/bin/env python3
"""Kills the all-in-one at random moments of many boots, starts it again, and proves that nothing was lost or leaked.

usage: tools/crash_test.py [--driver fake|libvirt] [--rounds 10] [--servers 12] [--seed N] [--guest DIRECTORY]
           [--compare-each] [--first-starts N] [--keep]
       tools/crash_test.py --moves [TEXT] --guest DIRECTORY
       tools/crash_test.py --actions [NAME,...] --guest DIRECTORY

In each round clients create, stop, start, reboot, rebuild, pause, copy and delete servers; at a random moment
the process is killed with SIGKILL and started again, in some rounds killed once more while it starts. In the
end, when everything has settled, the answers of clients are compared with the API, both databases, the
hypervisor, the disks and the host's network:

- a server whose creation was acknowledged is there and in no ERROR, unless a delete was sent; one whose deletion was
  acknowledged is gone
- no task is in progress and no action open, no action was recorded twice; the last one of each server has its effect
- usage on the compute nodes is the sum of the servers; mappings (the quota's usage), request specs and servers are
  the same set
- ports, addresses and memberships in groups belong to servers that exist, each address once, as the servers' network
  information says
- an image of a server is whole or not there, and the image store has its files and no others
- the hypervisor's guests are the servers, running if and only if ACTIVE; no other instance directory is left
- DHCP, filters and devices of the host (libvirt) are those of the ports

With --moves a real guest goes to and fro between two hosts with a libvirt each, and nova-compute, libvirt, QEMU or the
network of one of them dies at each step of live and cold moves (nova/tests/integration/killed_moves.py), or only at
those whose name has TEXT in it: the guest is on one host, remembers what it knew, and nothing of it is elsewhere.

With --actions nova-compute of one host dies before each step of each action on a real guest, and is started again
(nova/tests/integration/killed_actions.py): everything is as it is without the kill. Prints a table in the end.

Exits with 1 and a line for each difference.
"""
import argparse
import collections
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent import futures

from local_cloud import LocalCloud

SETTLE_S = {'fake': 180, 'libvirt': 240}     # seconds that the cloud may take to finish what was interrupted
CLIENTS = 4
PAUSE_S = {'fake': 0, 'libvirt': 1.5}        # longest pause of a client between two requests
START_S = (0.5, 2.5)                         # life of a process that is killed while it starts
LONGEST_S = {'fake': 1.5, 'libvirt': 15}     # longest life of a process
BRIDGE, CIDR = 'br-crash', '10.46.0.0/24'
VIRSH = ['virsh', '-c', 'qemu:///system']
NO_QUOTA = ['[quota]', 'instances = -1', 'cores = -1', 'ram = -1']
OPTIONS = {
    'fake': ['[fake]',
             'delays = spawn:0.05,destroy:0.03,power_off:0.03,power_on:0.03,reboot:0.03,snapshot:0.05'],
    'libvirt': ['[DEFAULT]', 'shutdown_timeout = 3', 'cpu_allocation_ratio = 64',
                '[network]', f'bridge = {BRIDGE}', f'default_cidr = {CIDR}'],
}
# status in which a server may rest -> power states of its guest
RESTING = {'ACTIVE': {1}, 'SHUTOFF': {4}, 'PAUSED': {3}, 'SUSPENDED': {7}, 'ERROR': {None, 0, 1, 3, 4, 6, 7}}
# name of the record of an action -> vm states that it leaves
EFFECTS = {'create': ('active',), 'start': ('active',), 'stop': ('stopped',), 'reboot': ('active',),
           'pause': ('paused',), 'unpause': ('active',), 'suspend': ('suspended',), 'resume': ('active',),
           'rebuild': ('active', 'stopped')}
ACTIONS = {
    'os-stop': None, 'os-start': None, 'reboot': {'type': 'HARD'}, 'pause': None, 'unpause': None, 'suspend': None,
    'resume': None, 'createImage': {'name': 'copy'}, 'rebuild': {},
}


class History:
    """What clients requested and what they were answered."""

    def __init__(self):
        self.lock = threading.Lock()
        self.created = set()             # acknowledged
        self.delete_sent = set()         # a delete left the client, the answer may not have come back
        self.delete_acknowledged = set()
        self.counts = collections.Counter()


class Client:
    """Makes requests until it is stopped, and writes down the answers."""

    def __init__(self, cloud, body, history, servers, rng):
        self.cloud, self.body, self.history, self.servers, self.rng = cloud, body, history, servers, rng
        self.number = 0

    def run(self, stop):
        while not stop.is_set():
            try:
                self.request()
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)             # killed meanwhile
            stop.wait(self.rng.uniform(0, PAUSE_S[self.cloud.driver]))

    def request(self):
        with self.history.lock:
            known = [uuid for uuid in self.history.created if uuid not in self.history.delete_sent]
        choice = self.rng.random()
        if not known or choice < 0.4 and len(known) < self.servers:
            self.create(max(1, self.servers - len(known)))
        elif choice > 0.85:
            self.delete(self.rng.choice(known))
        else:
            self.act(self.rng.choice(known))

    def count(self, what, status, data):
        with self.history.lock:
            self.history.counts[f'{what} {status}'] += 1
        if status >= 500:
            raise RuntimeError(f'the API answered {what} with {status}: {data[:300]!r}')

    def create(self, room=1):
        """:param room: servers at most"""
        self.number += 1
        body = {'server': {**self.body, 'name': f'crash-{threading.get_ident()}-{self.number}'}}
        kind = self.rng.random()
        if kind < 0.1:
            body['server'].update(min_count=min(3, room), max_count=min(3, room))
        elif kind < 0.3:
            body['server']['networks'] = [{'port': self.port()}]
        status, data = self.cloud.call('POST', '/servers', body, version='2.37')
        if status == 202:
            with self.history.lock:
                self.history.created.add(json.loads(data)['server']['id'])
        self.count('create', status, data)

    def port(self):
        """A port of the user's own: it outlives its server."""
        port = {'network_id': self.body['networks'][0]['uuid']}
        return self.cloud.json('POST', '/v2.0/ports', {'port': port}, service='network')['port']['id']

    def delete(self, uuid):
        with self.history.lock:
            self.history.delete_sent.add(uuid)
        status, data = self.cloud.call('DELETE', '/servers/' + uuid)
        if status in (204, 404):
            with self.history.lock:
                self.history.delete_acknowledged.add(uuid)
        self.count('delete', status, data)

    def act(self, uuid):
        action = self.rng.choice(list(ACTIONS))
        arguments = {'imageRef': self.body['imageRef']} if action == 'rebuild' else ACTIONS[action]
        self.count(action, *self.cloud.call('POST', f'/servers/{uuid}/action', {action: arguments}))


def listed(cloud):
    return cloud.json('GET', '/servers/detail?all_tenants=1&limit=1000')['servers']


def settled(cloud):
    """The servers, or None while something is going on."""
    servers = listed(cloud)
    busy = [s for s in servers if s['OS-EXT-STS:task_state'] or s['status'] not in RESTING]
    return None if busy else servers


def rows(path, statement):
    connection = sqlite3.connect(f'file:{path}?mode=ro', uri=True)
    connection.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in connection.execute(statement)]
    finally:
        connection.close()


class State:
    """Everything that is compared, read once.

    shown        {uuid: server} as the API shows them
    instances    {uuid: row}
    ports, free  {id: row} of those that servers have, and of the others
    addresses    rows of those that are in use
    refused      uuids of servers that could not be made, for a reason that ``refusal`` (of their faults) allows
    """

    refusal = re.compile('(?!)')                 # none does

    def __init__(self, cloud, history, servers):
        self.cloud, self.history = cloud, history
        self.shown = {server['id']: server for server in servers}
        self.instances = {row['uuid']: row for row in self.cell('SELECT * FROM instances')}
        every = {row['id']: row for row in self.api('SELECT * FROM ports')}
        self.ports = {ident: row for ident, row in every.items() if row['device_id']}
        self.free = {ident: row for ident, row in every.items() if not row['device_id']}
        self.addresses = self.api('SELECT address, port_id FROM addresses WHERE port_id IS NOT NULL')
        self.refused = {uuid for uuid, server in self.shown.items() if server['status'] == 'ERROR'
                        and self.refusal.fullmatch(server.get('fault', {}).get('message', ''))}

    def api(self, statement):
        return rows(self.cloud.state / 'api.sqlite', statement)

    def cell(self, statement):
        return rows(self.cloud.state / 'cell1.sqlite', statement)


def acknowledged(state):
    """Responses to clients, and the final states of the servers."""
    shown, history = state.shown, state.history
    for uuid in history.created:
        if uuid not in shown and uuid not in history.delete_sent:
            yield f'server {uuid} was acknowledged and is lost'
        if uuid in shown and uuid in history.delete_acknowledged:
            yield f'server {uuid} was deleted and is there, {shown[uuid]["status"]}'
    for uuid, server in shown.items():
        if server['status'] not in RESTING or server['OS-EXT-STS:task_state']:
            yield f'server {uuid} is {server["status"]}, task {server["OS-EXT-STS:task_state"]}'
        if server['status'] == 'ERROR' and uuid not in state.refused:
            yield f'server {uuid} is in ERROR: {server.get("fault", "without a reason")}'


def records(state):
    """Rows of the databases against each other."""
    instances = state.instances
    if set(instances) != set(state.shown):
        yield f'the API shows {len(state.shown)} servers, the cell has {len(instances)}'
    for table in ('instance_mappings', 'request_specs'):
        listed = {row['instance_uuid'] for row in state.api(f'SELECT instance_uuid FROM {table}')}
        yield from (f'{table} has {uuid}, the cell has not' for uuid in listed - set(instances))
        yield from (f'{table} lacks {uuid}' for uuid in set(instances) - listed)
    for row in state.api('SELECT * FROM instance_mappings'):
        server = instances.get(row['instance_uuid'])
        if server and (row['vcpus'], row['memory_mb']) != (server['vcpus'], server['memory_mb']):
            yield f'the quota counts another size for {row["instance_uuid"]} than it has'
    for row in state.cell('SELECT instance_uuid FROM block_device_mappings'):
        if row['instance_uuid'] not in instances:
            yield f'a block device of {row["instance_uuid"]} is left'
    for uuid, row in instances.items():
        if row['host'] is None and row['vm_state'] != 'error':
            yield f'server {uuid} is {row["vm_state"]} without a host'
        if row['progress']:
            yield f'server {uuid} rests with progress {row["progress"]}'
    for node in state.cell('SELECT * FROM compute_nodes'):
        here = [row for row in instances.values() if row['host'] == node['host'] and row['node'] == node['node']]
        for column, used in (('vcpus_used', 'vcpus'), ('memory_mb_used', 'memory_mb'), ('local_gb_used', 'root_gb'),
                             ('running_vms', None)):
            total = sum(row[used] if used else 1 for row in here)
            if node[column] != total:
                yield f'{node["node"]}: {column} is {node[column]}, its servers have {total}'


def actions(state):
    """The record of what was done."""
    recorded = state.cell('SELECT * FROM instance_actions')
    for row in recorded:
        if row['finished_at'] is None or row['deadline'] is not None:
            yield f'action {row["action"]} of {row["instance_uuid"]} is still open'
        if not row['request_id']:
            yield f'action {row["action"]} of {row["instance_uuid"]} has no request id'
    keys = collections.Counter((row['instance_uuid'], row['request_id']) for row in recorded)
    yield from (f'request {request} of {uuid} was recorded {n} times'
                for (uuid, request), n in keys.items() if n > 1)
    last = {row['instance_uuid']: row for row in sorted(recorded, key=lambda row: row['id'])
            if row['action'] in EFFECTS}
    for uuid, row in last.items():
        server = state.instances.get(uuid)
        if server and server['vm_state'] not in (*EFFECTS[row['action']], 'error'):
            yield f'the last action of {uuid} is {row["action"]}, and it is {server["vm_state"]}'
        if server and row['message'] and not (uuid in state.refused and row['action'] == 'create'):
            yield f'{row["action"]} of {uuid} failed'
    created = {row['instance_uuid'] for row in recorded if row['action'] == 'create'}
    yield from (f'server {uuid} has no record of its creation' for uuid in set(state.instances) - created)
    ids = {row['id'] for row in recorded}
    for row in state.cell('SELECT * FROM instance_action_events'):
        if row['action_id'] not in ids:
            yield f'event {row["event"]} belongs to no action'
        if row['finished_at'] is None:
            yield f'event {row["event"]} has not ended'


def network(state):
    """Ports, addresses, groups, and what servers show of them."""
    instances, ports = state.instances, state.ports
    for port in ports.values():
        server = instances.get(port['device_id'])
        if server is None or server['host'] != port['host']:
            yield f'port {port["id"]} belongs to {port["device_id"]}, which is {"elsewhere" if server else "gone"}'
    yield from (f'port {ident} was made for a server and has none' for ident, row in state.free.items()
                if row['created_by_compute'] or row['host'])
    held = collections.defaultdict(set)
    for row in state.addresses:
        if row['port_id'] in state.free:
            continue
        if row['port_id'] not in ports:
            yield f'address {row["address"]} belongs to port {row["port_id"]}, which has no server'
        else:
            held[ports[row['port_id']]['device_id']].add(row['address'])
    every = {*ports, *state.free}
    yield from (f'port {row["port_id"]} is gone, its membership in a group is left'
                for row in state.api('SELECT port_id FROM port_security_groups') if row['port_id'] not in every)
    lone = every - {row['port_id'] for row in state.api('SELECT port_id FROM port_security_groups')}
    yield from (f'port {ident} is in no security group' for ident in lone)
    counted = collections.Counter(row['address'] for row in state.addresses)
    yield from (f'address {address} is held twice' for address, n in counted.items() if n > 1)
    for uuid, server in state.shown.items():
        said = {ip['addr'] for ips in server['addresses'].values() for ip in ips}
        if said != held[uuid] or len(said) != 1 and server['status'] != 'ERROR':
            yield f'server {uuid} shows addresses {sorted(said)}, the network has {sorted(held[uuid])}'
        vifs = {vif['id'] for vif in json.loads(instances[uuid]['network_info'])} if uuid in instances else set()
        if vifs != {port['id'] for port in ports.values() if port['device_id'] == uuid}:
            yield f'server {uuid} has other ports than the network gave it'


def images(state):
    """Images of servers, and the store's files."""
    found = state.api('SELECT * FROM images')
    for image in found:
        if image['status'] != 'active':
            yield f'image {image["id"]} is {image["status"]}'
    files = {path.name for path in (state.cloud.state / 'images').iterdir()}
    known = {image['data_id'] for image in found if image['data_id']}
    yield from (f'the image store has the file {name}, which is no image\'s' for name in files - known)
    yield from (f'the image store lacks the file {name}' for name in known - files)
    ids = {image['id'] for image in found}
    for table in ('image_properties', 'image_tags', 'image_members'):
        yield from (f'{table} has a row of image {row["image_id"]}, which is gone'
                    for row in state.api(f'SELECT DISTINCT image_id FROM {table}') if row['image_id'] not in ids)


def guests(cloud, ids):
    """{uuid: power state} as the hypervisor has it, without those that are suspended."""
    if cloud.driver == 'fake':
        found = {}
        for path in (cloud.state / 'fake').glob('*.json'):
            found.update({uuid: guest['power_state'] for uuid, guest in json.loads(path.read_text()).items()})
        return found
    found = {}
    for option, power_state in (('--state-shutoff', 4), ('--state-running', 1), ('--state-paused', 3),
                                ('--with-managed-save', 7), ('--state-other', 6)):
        for uuid in subprocess.check_output([*VIRSH, 'list', '--all', '--uuid', option], text=True).split():
            if uuid in ids:
                found[uuid] = power_state
    return found


def hypervisor(state):
    """Guests and their directories."""
    there = guests(state.cloud, state.history.created | set(state.shown) | set(state.instances))
    for uuid, power_state in there.items():
        server = state.shown.get(uuid)
        if server is None:
            yield f'the hypervisor has guest {uuid}, which is no server'
            continue
        if power_state not in RESTING.get(server['status'], ()):
            yield f'guest {uuid} has power state {power_state}, its server is {server["status"]}'
        if power_state != server['OS-EXT-STS:power_state']:
            yield f'guest {uuid} has power state {power_state}, its server {server["OS-EXT-STS:power_state"]}'
    yield from (f'server {uuid} is {server["status"]} and has no guest' for uuid, server in state.shown.items()
                if uuid not in there and server['status'] != 'ERROR')
    directory = state.cloud.state / 'instances'
    for path in directory.iterdir() if directory.is_dir() else ():
        if len(path.name) == 36 and path.name not in state.shown:
            yield f'instance directory {path.name} is left'
        elif len(path.name) == 36:
            yield from (f'{path.name} has a left-over {file.name}' for file in path.iterdir()
                        if file.name.startswith('snapshot-') or file.suffix in ('.part', '.new', '.tmp'))
    for path in (directory / '_base').glob('*.part'):
        yield f'the image cache has a part of a download: {path.name}'
    if state.cloud.driver == 'fake':
        yield from (f'the fake host has a left-over file {path.name}'
                    for path in (state.cloud.state / 'fake').iterdir() if path.suffix != '.json')


def plumbing(state):
    """DHCP, filters and devices of this host."""
    if state.cloud.driver == 'fake':
        return
    wanted = {(state.ports[row['port_id']]['mac_address'], row['address']) for row in state.addresses
              if row['port_id'] in state.ports}
    hosts = pathlib.Path(f'/run/nova-network/{BRIDGE}/{BRIDGE}/hosts').read_text().splitlines()
    served = {tuple(line.split(',')[:2]) for line in hosts}
    if served != wanted:
        yield f'DHCP serves {sorted(served)}, the ports are {sorted(wanted)}'
    pids = [path for path in pathlib.Path('/proc').glob('[0-9]*/cmdline')
            if f'--interface={BRIDGE}'.encode() in _read(path)]
    if not 1 <= len(pids) <= 2:          # dnsmasq may keep a helper
        yield f'{len(pids)} DHCP servers run on {BRIDGE}'
    devices = {'tap' + ident[:11] for ident in state.ports}
    filters = ''
    for family in ('bridge', 'inet'):
        done = subprocess.run(['nft', 'list', 'table', family, 'nova_' + BRIDGE.replace('-', '_')],
                              capture_output=True, text=True)
        filters += done.stdout
        if done.returncode:
            yield f'the {family} filters of {BRIDGE} are not loaded'
    named = set(re.findall(r'\btap[0-9a-f]{8}-[0-9a-f]{2}\b', filters))
    yield from (f'filters name the device {device}, which is no port\'s' for device in named - devices)
    yield from (f'no filter names the device {device}' for device in devices - named)
    links = json.loads(subprocess.check_output(['ip', '-json', 'link', 'show', 'master', BRIDGE]) or b'[]')
    attached = {link['ifname'] for link in links}
    lit = {'tap' + ident[:11] for ident, port in state.ports.items()
           if state.shown.get(port['device_id'], {}).get('status') in ('ACTIVE', 'PAUSED')}
    yield from (f'device {device} is on the bridge, no running server has it' for device in attached - lit)
    yield from (f'device {device} of a running server is not on the bridge' for device in lit - attached)


def _read(path):
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b''


CHECKS = (acknowledged, records, actions, network, images, hypervisor, plumbing)


def differences(cloud, history, servers):
    """Sentences, one for each thing that is not as it must be."""
    state = State(cloud, history, servers)
    return [sentence for check in CHECKS for sentence in check(state)]


def prepare(cloud, guest):
    """An image, a flavor and the network: the body of a request for a server."""
    if cloud.driver == 'fake':
        (cloud.state / 'empty.img').write_bytes(b'\0' * 4096)
        image = cloud.add_image('crash', cloud.state / 'empty.img', 'raw')
    else:
        image = cloud.add_image('crash', pathlib.Path(guest) / 'guest.qcow2', 'qcow2')
    flavor = cloud.json('POST', '/flavors', {'flavor': {
        'name': 'crash', 'ram': 128, 'vcpus': 1, 'disk': 1}})['flavor']['id']
    network = cloud.json('GET', '/v2.0/networks', service='network')['networks'][0]['id']
    return {'flavorRef': flavor, 'imageRef': image, 'networks': [{'uuid': network}]}


def interrupted(cloud, body, history, servers, rng):
    """Clients work until the process is killed; seconds that the next one needed to serve."""
    stop = threading.Event()
    with futures.ThreadPoolExecutor(CLIENTS) as pool:
        jobs = [pool.submit(Client(cloud, body, history, servers, random.Random(rng.random())).run, stop)
                for _ in range(min(CLIENTS, servers))]
        time.sleep(rng.uniform(0.1, LONGEST_S[cloud.driver]))
        cloud.kill()
        stop.set()
        for job in jobs:
            job.result()
    for _ in range(rng.choice((0, 0, 1, 2))):        # and again while it takes up what was interrupted
        cloud.launch()
        time.sleep(rng.uniform(*START_S))
        cloud.kill()
    return cloud.start()


def compare(cloud, history, report):
    """Wait until the cloud has settled; its differences."""
    begin = time.monotonic()
    limit = SETTLE_S[cloud.driver]
    while (servers := settled(cloud)) is None and time.monotonic() - begin < limit:
        time.sleep(0.2)
    report(f'settled after {time.monotonic() - begin:.1f} s; answers: {dict(sorted(history.counts.items()))}')
    failed = differences(cloud, history, servers or listed(cloud))
    for _ in range(50):              # what was given back a moment ago may be on its way through the network service
        if not failed:
            break
        time.sleep(0.2)
        failed = differences(cloud, history, settled(cloud) or listed(cloud))
    states = collections.Counter(server['status'] for server in listed(cloud))
    for sentence in failed:
        report('  ' + sentence)
    report(f'{sum(states.values())} servers: {dict(states)}; {len(failed)} differences')
    return failed


def clean(cloud):
    """Delete what the test made on the host."""
    for server in listed(cloud):
        cloud.call('DELETE', '/servers/' + server['id'])
    begin = time.monotonic()
    while listed(cloud) and time.monotonic() - begin < 60:
        time.sleep(0.2)


def remove_guests(cloud):
    """Remove the guests of a cloud that did not come up again."""
    for uuid in subprocess.check_output([*VIRSH, 'list', '--all', '--uuid'], text=True).split():
        owner = subprocess.run([*VIRSH, 'metadata', uuid, 'urn:nova:libvirt:owner:1'], capture_output=True, text=True)
        if f'"{cloud.state}/instances"' in owner.stdout.replace("'", '"'):
            subprocess.run([*VIRSH, 'destroy', uuid], capture_output=True)
            subprocess.run([*VIRSH, 'undefine', uuid, '--managed-save'], capture_output=True)


def first_starts(times=10, seed=None, report=print):
    """The differences that are left when the very first start is killed, so many clouds one after the other."""
    seed = seed if seed is not None else random.SystemRandom().randrange(10 ** 6)
    rng, failed = random.Random(seed), []
    report(f'crash test: {times} first starts, seed {seed}')
    for _ in range(times):
        cloud = LocalCloud('fake', [*NO_QUOTA, *OPTIONS['fake']])
        try:
            for _ in range(rng.choice((1, 2, 3))):
                cloud.launch()
                time.sleep(rng.uniform(*START_S))
                cloud.kill()
            cloud.start()
            history, body = History(), prepare(cloud, None)
            Client(cloud, body, history, 1, rng).create()
            failed += compare(cloud, history, report)
        except Exception as error:
            failed.append(f'{type(error).__name__}: {error}')
            report('  ' + failed[-1])
        finally:
            cloud.close()
    return failed


def run(driver='fake', rounds=10, servers=12, seed=None, guest=None, keep=False, report=print, compare_each=False):
    """The differences that are left after so many kills.

    :param servers: at once, at most about so many
    :param guest: directory of the guest image, for libvirt
    :param keep: leave the state directory when something differs
    :param compare_each: compare after each kill, not only in the end
    """
    seed = seed if seed is not None else random.SystemRandom().randrange(10 ** 6)
    rng = random.Random(seed)
    report(f'crash test: driver {driver}, {rounds} rounds, seed {seed}')
    cloud = LocalCloud(driver, [*NO_QUOTA, *OPTIONS[driver]])
    failed = ['it did not get to the end']
    try:
        cloud.start()
        body, history = prepare(cloud, guest), History()
        for number in range(rounds):
            started = interrupted(cloud, body, history, servers, rng)
            report(f'  round {number + 1}: {len(history.created)} created, {len(history.delete_sent)} deleted, '
                 f'serving again after {started:.1f} s')
            if compare_each or number + 1 == rounds:
                failed = compare(cloud, history, report)
                if failed:
                    break
        if failed and not keep:
            report(cloud.last_words(60))
        clean(cloud)
    finally:
        cloud.end()
        if driver == 'libvirt':
            remove_guests(cloud)
            cloud.remove_network()
        cloud.close(keep=keep and bool(failed))
        if keep and failed:
            report(f'state: {cloud.state}')
    return failed


def moves(text, guest, report=print):
    """The differences that kills in the middle of moves have left.

    :param text: only cases with this in their names
    :param guest: directory of the guest image
    """
    os.environ['NOVA_TEST_GUEST_DIR'] = guest            # read where the hosts are described
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    from nova.tests.integration import killed_moves
    from nova.tests.integration import moving_cloud
    failed = []
    chosen = [case for case in killed_moves.CASES if text in case.name]
    with moving_cloud.fleet() as fleet:
        walk = killed_moves.Walk(fleet, lambda line: report('  ' + line))
        report(f'crash test: {len(chosen)} kills in the middle of moves')
        for case in chosen:
            try:
                if not walk.server:
                    walk.begin()
                walk.run(case)
            except Exception as error:
                failed.append(f'{case.name}: {type(error).__name__}: {error}')
                report('  ' + failed[-1])
                fleet.restore()
                walk.server = ''
        report(f'{len(failed)} of {len(chosen)} cases failed')
        fleet.clear()
    return failed


def actions_of_a_host(names, guest, report=print):
    """The differences that kills in the middle of actions on one host have left.

    :param names: of killed_actions.ACTIONS, with commas between; '': all
    :param guest: directory of the guest image
    """
    os.environ['NOVA_TEST_GUEST_DIR'] = guest            # read where the hosts are described
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    from nova.tests.integration import killed_actions
    done = []
    try:
        with killed_actions.fleet() as fleet:
            walk = killed_actions.Walk(fleet, lambda line: report('  ' + line))
            for name in names.split(',') if names else killed_actions.ACTIONS:
                done.append(walk.run(killed_actions.ACTIONS[name]))
            fleet.clear()
    finally:                             # a run that is interrupted shows what it has done
        report(killed_actions.table(done))
    return [sentence for row in done for sentence in row.failed]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--driver', choices=('fake', 'libvirt'), default='fake')
    parser.add_argument('--rounds', type=int, default=10)
    parser.add_argument('--servers', type=int, default=12, help='servers at once')
    parser.add_argument('--seed', type=int, default=None)
    parser.add_argument('--guest', help='directory of the guest image, for libvirt')
    parser.add_argument('--keep', action='store_true', help='leave the state directory when something differs')
    parser.add_argument('--compare-each', action='store_true', help='compare after each kill')
    parser.add_argument('--first-starts', type=int, default=0, metavar='N',
                        help='before: kill the first starts of so many clouds')
    parser.add_argument('--moves', nargs='?', const='', metavar='TEXT',
                        help='instead: kill parts in the middle of moves between hosts, where a name has TEXT')
    parser.add_argument('--actions', nargs='?', const='', metavar='NAME,...',
                        help='instead: kill nova-compute before each step of these actions on one host, or of all')
    args = vars(parser.parse_args())
    sys.stdout.reconfigure(line_buffering=True)
    for name, proof in (('moves', moves), ('actions', actions_of_a_host)):
        text = args.pop(name)
        if text is not None:
            if not args['guest']:
                parser.error(f'--{name} needs the directory of a guest image: --guest')
            sys.exit(1 if proof(text, args['guest']) else 0)
    times = args.pop('first_starts')
    failed = first_starts(times, args['seed']) if times else []
    sys.exit(1 if run(**args) + failed else 0)


if __name__ == '__main__':
    main()
