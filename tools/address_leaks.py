#!/usr/bin/env python3
"""Looks for addresses that leak: random operations of the network service with database faults, and a count.

usage: tools/address_leaks.py [--operations 10000] [--threads 4] [--odds 0.01] [--seed N] [--url DATABASE]

Servers, ports, networks, routers and floating addresses come and go, by the RPC methods and the HTTP API, from
several threads at once, while writing statements fail with deadlocks and lock timeouts. Every refusal is fine; an
answer of 500 is not. In between and at the end each address, port, interface and floating address must belong to what
is there; then everything is deleted, and nothing may be left. Exit 1 and a list of what is wrong otherwise.
"""
import argparse
import collections
import io
import itertools
import json
import pathlib
import random
import sys
import tempfile
import threading
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova import objects
from nova.db import engine
from nova.db import schema
from nova.db.networks import networks
from nova.db.tables import network as t
from nova.network import fake
from nova.network import manager
from nova.network import setup
from nova.network.rest import app
from nova.tests import db_faults

PROJECTS = ('a', 'b')
HOSTS = ('host1', 'host2')
LOOKS = 10                      # how often the rows are looked over on the way


class Storm:
    """Random operations on one database.

    :param url: of an empty database
    """

    def __init__(self, url, seed):
        self.conf = nova_conf.new(files=[], network__driver='fake', network__default_cidr='10.44.0.0/24',
                                  network__dhcp_lease_time=120, network__quota=dict.fromkeys((
                                      'network', 'subnet', 'port', 'router', 'floatingip'), -1))
        self.db = engine.Database(url)
        schema.sync(self.db, 'api')
        self.default = setup.bootstrap(self.conf, self.db)
        self.services = {host: manager.NetworkManager(self.conf, self.db, host, fake.FakeDriver(self.conf))
                         for host in HOSTS}
        self.app = app.Application(self.conf, self.db)
        self.random, self.lock = random.Random(seed), threading.Lock()
        self.servers: dict[str, objects.Instance] = {}
        self.booted: set[str] = set()
        self.done: collections.Counter = collections.Counter()
        self.wrong: list[str] = []
        self.admin = context.admin_context()
        for each in self.services.values():
            each.start()
        self.outside = self.call('admin', 'POST', 'networks', {'network': {'router:external': True}})['network']['id']
        self.call('admin', 'POST', 'subnets', {'subnet': {
            'network_id': self.outside, 'cidr': '203.0.113.0/26', 'ip_version': 4, 'enable_dhcp': False}})

    # ---- the API

    def call(self, project, method, path, body=None):
        """The document of an answer, None for a refusal."""
        data, status = json.dumps(body).encode() if body is not None else b'', []
        path, _, query = path.partition('?')
        environ = {
            'REQUEST_METHOD': method, 'PATH_INFO': f'/v2.0/{path}', 'QUERY_STRING': query, 'SCRIPT_NAME': '/network',
            'CONTENT_LENGTH': str(len(data)), 'CONTENT_TYPE': 'application/json', 'wsgi.input': io.BytesIO(data),
            'SERVER_NAME': 'x', 'SERVER_PORT': '80', 'wsgi.url_scheme': 'http', 'HTTP_HOST': 'x',
            'nova.context': context.RequestContext(
                user_id='u', project_id=project, roles=['member', 'reader', *(['admin'] if project == 'admin' else [])],
                overwrite=False, is_admin=project == 'admin')}
        answer = b''.join(self.app(environ, lambda line, headers, error=None: status.append(line)))
        code = int(status[0].split()[0])
        if code >= 500 and code != 503:
            self.wrong.append(f'{method} {path} {body}: {status[0]} {answer[:200]!r}')
        return (json.loads(answer) if answer else {}) if code < 400 else None

    def pick(self, project, kind, query=''):
        """The id of any of a project's things, or None."""
        found = self.call(project, 'GET', f'{kind}?project_id={project}{query}') or {}
        rows = found.get(kind, [])
        return self.any(rows)['id'] if rows else None

    def any(self, values):
        with self.lock:
            return self.random.choice(list(values)) if values else None

    def number(self, most):
        with self.lock:
            return self.random.randrange(most)

    # ---- operations

    def boot(self, project):
        wanted = None if self.number(3) else [{'network_id': self.pick(project, 'networks', '&shared=false')}]
        if wanted and wanted[0]['network_id'] is None:
            wanted = [{'port_id': self.pick(project, 'ports', '&device_id=')}]
            if wanted[0]['port_id'] is None:
                return
        elif wanted is None:
            wanted = [{'network_id': self.default}]
        server = objects.Instance(uuid=str(uuid.uuid4()), project_id=project, availability_zone=None)
        with self.lock:
            self.servers[server.uuid] = server               # before: what a fault cuts off is its own still
        host = self.any(HOSTS)
        try:
            self.services[host].allocate_for_instance(
                self.admin, instance=server, requested_networks=[
                    {'network_id': None, 'port_id': None, 'fixed_ip': None, **each} for each in wanted],
                security_groups=None, host=host)
        finally:
            with self.lock:
                self.booted.add(server.uuid)                 # a delete waits for it, as on a host

    def end(self, project):
        server = self.any([each for each in list(self.servers.values())
                           if each.project_id == project and each.uuid in self.booted])
        if server is not None:
            self.services[self.any(HOSTS)].deallocate_for_instance(self.admin, instance_uuid=server.uuid, host=None)
            with self.lock:
                self.servers.pop(server.uuid, None)

    def move(self, project):
        server, host = self.any(list(self.servers.values())), self.any(HOSTS)
        if server is not None:
            self.services[host].setup_for_instance(self.admin, instance=server, host=host)

    def network(self, project):
        made = self.call(project, 'POST', 'networks', {'network': {}})
        if made:
            self.call(project, 'POST', 'subnets', {'subnet': {
                'network_id': made['network']['id'], 'cidr': f'10.{self.number(3)}.0.0/28', 'ip_version': 4}})

    def port(self, project):
        network = self.pick(project, 'networks') or self.default
        if network is not None:
            address = f'10.{self.number(3)}.0.{self.number(16)}'
            fixed = {} if self.number(2) else {'fixed_ips': [{'ip_address': address}]}
            self.call(project, 'POST', 'ports', {'port': {'network_id': network, **fixed}})

    def change_port(self, project):
        ident = self.pick(project, 'ports')
        self.call(project, 'PUT', f'ports/{ident}', {'port': {'fixed_ips': [
            {'ip_address': f'10.{self.number(3)}.0.{self.number(16)}'}]}})

    def router(self, project):
        self.call(project, 'POST', 'routers', {'router': self.any([{}, {
            'external_gateway_info': {'network_id': self.outside}}])})

    def join(self, project):
        self._interface(project, 'add_router_interface')

    def part(self, project):
        self._interface(project, 'remove_router_interface')

    def _interface(self, project, action):
        router, subnet = self.pick(project, 'routers'), self.pick(project, 'subnets')
        self.call(project, 'PUT', f'routers/{router}/{action}', {'subnet_id': subnet})

    def gateway(self, project):
        self.call(project, 'PUT', f"routers/{self.pick(project, 'routers')}", {'router': {
            'external_gateway_info': self.any([None, {'network_id': self.outside}])}})

    def floating(self, project):
        self.call(project, 'POST', 'floatingips', {'floatingip': {'floating_network_id': self.outside}})

    def associate(self, project):
        self.call(project, 'PUT', f"floatingips/{self.pick(project, 'floatingips')}", {'floatingip': {
            'port_id': self.any([None, self.pick(project, 'ports')])}})

    def forward(self, project):
        floating = self.pick(project, 'floatingips')
        self.call(project, 'POST', f'floatingips/{floating}/port_forwardings', {'port_forwarding': {
            'protocol': 'tcp', 'external_port': 1 + self.number(9), 'internal_port': 22,
            'internal_port_id': self.pick(project, 'ports')}})

    def remove(self, project):
        kind = self.any(('networks', 'subnets', 'ports', 'routers', 'floatingips', 'ports', 'floatingips'))
        ident = self.pick(project, kind)
        if ident is not None:
            self.call(project, 'DELETE', f'{kind}/{ident}')

    OPERATIONS = (boot, boot, boot, end, end, move, network, port, port, change_port, router, join, part, gateway,
                  floating, associate, associate, forward, remove, remove, remove)

    def run(self, operations, threads):
        """So many operations, from so many threads."""
        numbers = iter(range(operations))

        def work():
            while next_number(numbers, self.lock) is not None:
                operation = self.any(self.OPERATIONS)
                try:
                    operation(self, self.any(PROJECTS))
                    said = 'done or refused'
                except exception.NovaException as error:
                    said = type(error).__name__
                    if error.code >= 500 and not isinstance(error, exception.Unavailable):
                        self.wrong.append(f'{operation.__name__}: {error!r}')
                except Exception as error:                   # what a database fault becomes that no retry mended
                    said = type(error).__name__
                    if not said.startswith(('DB', 'RetryRequest')):
                        self.wrong.append(f'{operation.__name__}: {error!r}')
                with self.lock:
                    self.done[f'{operation.__name__}: {said}'] += 1
        workers = [threading.Thread(target=work) for _ in range(threads)]
        for each in workers:
            each.start()
        for each in workers:
            each.join()

    # ---- what must be true

    def leaks(self):
        """Return the resources without an owner, one sentence each."""
        with self.db.reader() as conn:
            def every(table):
                return [dict(row) for row in conn.execute(table.select()).mappings()]
            ports = {row['id']: row for row in every(t.ports)}
            subnets = {row['id']: row for row in every(t.subnets)}
            nets, routers = {row['id'] for row in every(t.networks)}, {row['id'] for row in every(t.routers)}
            addresses, floating = every(t.addresses), every(t.floating_ips)
            interfaces, forwardings = every(t.router_interfaces), every(t.port_forwardings)
            segments, groups = every(t.segments), every(t.port_security_groups)
        held = collections.Counter(row['port_id'] for row in addresses if row['port_id'])
        facts = [
            *((f"address {row['address']} of port {row['port_id']}, which is gone", row['port_id'] in ports)
              for row in addresses if row['port_id']),
            *((f"address {row['address']} of a subnet that is gone", row['subnet_id'] in subnets) for row in addresses),
            *((f"subnet {row['id']} of a network that is gone", row['network_id'] in nets) for row in subnets.values()),
            *((f"port {row['id']} of a network that is gone", row['network_id'] in nets) for row in ports.values()),
            *((f"port {row['id']} of server {row['device_id']}, which is gone", row['device_id'] in self.servers)
              for row in ports.values() if row['device_owner'].startswith('compute:')),
            *((f"port {row['id']} of router {row['device_id']}, which is gone", row['device_id'] in routers)
              for row in ports.values() if row['device_owner'].startswith('network:router')),
            *((f"interface of router {row['router_id']} without a port or router", row['port_id'] in ports
               and row['router_id'] in routers) for row in interfaces),
            *((f"floating address {row['floating_ip_address']} without its port outside",
               held[row['floating_port_id']] == 1) for row in floating),
            *((f"floating address {row['floating_ip_address']} of a port that is gone", row['port_id'] in ports)
              for row in floating if row['port_id']),
            *((f"port {row['id']} of a floating address that is gone",
               row['id'] in {each['floating_port_id'] for each in floating})
              for row in ports.values() if row['device_owner'] == 'network:floatingip'),
            *((f"forwarding {row['id']} of what is gone", row['internal_port_id'] in ports
               and row['floating_ip_id'] in {each['id'] for each in floating}) for row in forwardings),
            *((f"number {row['number']} of a network that is gone", row['network_id'] in nets) for row in segments),
            *((f"group of port {row['port_id']}, which is gone", row['port_id'] in ports) for row in groups)]
        return [sentence for sentence, holds in facts if not holds]

    def clear(self):
        """Delete everything that the operations made."""
        for server in list(self.servers):
            self.services[HOSTS[0]].deallocate_for_instance(self.admin, instance_uuid=server, host=None)
            self.servers.pop(server)
        for project in PROJECTS:
            for floating in self.listed(project, 'floatingips'):
                self.call(project, 'DELETE', f"floatingips/{floating['id']}")
            for router in self.listed(project, 'routers'):
                for port in self.listed('admin', 'ports', f"?device_id={router['id']}&device_owner="
                                                          'network:router_interface'):
                    self.call(project, 'PUT', f"routers/{router['id']}/remove_router_interface", {
                        'port_id': port['id']})
                self.call(project, 'PUT', f"routers/{router['id']}", {'router': {'external_gateway_info': None}})
                self.call(project, 'DELETE', f"routers/{router['id']}")
            for kind in ('ports', 'networks'):
                for row in self.listed(project, kind, f'?project_id={project}'):
                    self.call(project, 'DELETE', f"{kind}/{row['id']}")

    def listed(self, project, kind, query=''):
        return self.call(project, 'GET', f'{kind}{query}')[kind]

    def left(self):
        """Return the resources that are left although none should be, one sentence each."""
        with self.db.reader() as conn:
            taken = [row for row in conn.execute(t.addresses.select()).mappings() if row['port_id']]
            counts = {table.name: networks.count(conn, table, project) for table in (
                t.ports, t.routers, t.floating_ips, t.networks) for project in PROJECTS}
        return [*(f"address {row['address']} is taken still" for row in taken),
                *(f'{number} rows of {name} are left' for name, number in counts.items() if number)]


def next_number(numbers, lock):
    with lock:
        return next(numbers, None)


def search(url, operations, threads=4, odds=0.01, seed=0, show=lambda *_words: None):
    """Sentences about what leaked or failed; none is good.

    :param odds: probability that a writing statement fails
    """
    storm = Storm(url, seed)
    try:
        wrong: list[str] = []
        for _look in range(LOOKS):
            with db_faults.Injector(storm.db, odds, seed) as injector:
                storm.run(operations // LOOKS, threads)
            wrong += storm.leaks()
            show(f'{sum(storm.done.values())} operations, {injector.count} faults in the last of them, '
                 f'{len(storm.servers)} servers, {len(wrong)} leaks')
        for said, number in sorted(storm.done.items()):
            show(f'  {said:40} {number}')
        storm.clear()
        return list(itertools.islice(dict.fromkeys([*storm.wrong, *wrong, *storm.leaks(), *storm.left()]), 50))
    finally:
        storm.db.dispose()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--operations', type=int, default=10000)
    parser.add_argument('--threads', type=int, default=4)
    parser.add_argument('--odds', type=float, default=0.01)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--url', help='of an empty database; SQLite in a temporary directory unless given')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        wrong = search(options.url or f'sqlite:///{directory}/api.sqlite', options.operations, options.threads,
                       options.odds, options.seed, lambda *words: print(*words, flush=True))
    print('\n'.join(wrong) or 'Nothing leaked.')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
