"""What tests share with nova/tests/integration/test_placement_service.py."""
import contextlib
import os
import subprocess
import time

import requests as http

from nova.tests.integration import servers

PYTHON = os.environ.get('NOVA_TEST_PLACEMENT')

SERVE = '''
import socketserver, sys
from wsgiref import simple_server
from placement.wsgi import init_application
class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True
application = init_application()
def serve(environ, start_response):                       # whoever asks is the administrator
    return application({**environ, 'HTTP_X_AUTH_TOKEN': 'admin'}, start_response)
simple_server.make_server('127.0.0.1', int(sys.argv.pop()), serve, Server).serve_forever()
'''
HEADERS = {'X-Auth-Token': 'admin', 'OpenStack-API-Version': 'placement 1.36', 'Accept': 'application/json'}


@contextlib.contextmanager
def service(directory, python=PYTHON):
    """The address of a service with an empty database."""
    (directory / 'placement.conf').write_text(
        f'[api]\nauth_strategy = noauth2\n[placement_database]\nsync_on_startup = true\n'
        f'connection = sqlite:///{directory}/placement.sqlite\n')
    port, log = servers.free_port(), (directory / 'log').open('wb')
    process = subprocess.Popen([python, '-c', SERVE, str(port)], stdout=log, stderr=log,
                               env={**os.environ, 'OS_PLACEMENT_CONFIG_DIR': str(directory)})
    try:
        for _ in range(600):
            assert process.poll() is None, (directory / 'log').read_text()
            if servers.answers(port):
                break
            time.sleep(0.1)
        yield f'http://127.0.0.1:{port}'
    finally:
        process.terminate()
        process.wait()
        log.close()


class Placement:
    """What tests of the small service prepare and look at, of a real one."""

    def __init__(self, address):
        self.address, self.before_claim = address, None

    def call(self, method, path, **more):
        answer = http.request(method, self.address + path, headers=HEADERS, timeout=30, **more)
        assert answer.status_code < 400, answer.text
        return answer.json() if answer.content else {}

    @property
    def providers(self):
        return {row['uuid']: {**row, 'parent': row['parent_provider_uuid']}
                for row in self.call('GET', '/resource_providers')['resource_providers']}

    @property
    def allocations(self):
        return {consumer: each for provider in self.providers for consumer, each in self.call(
            'GET', f'/resource_providers/{provider}/allocations')['allocations'].items()}

    def provider(self, ident, name, parent=None, inventory=(), traits=(), aggregates=()):
        self.call('POST', '/resource_providers', json={'uuid': ident, 'name': name, **(
            {'parent_provider_uuid': parent} if parent else {})})
        inventory = {key: {'total': total} for key, total in dict(inventory).items() if total}
        for what, body in (('inventories', {'inventories': inventory}), ('traits', {'traits': list(traits)}),
                           ('aggregates', {'aggregates': list(aggregates)})):
            for trait in traits if what == 'traits' else ():
                self.call('PUT', f'/traits/{trait}')
            self.call('PUT', f'/resource_providers/{ident}/{what}',
                      json={**body, 'resource_provider_generation': self.providers[ident]['generation']})
        return ident

    def free(self, ident, resource):
        total = self.call('GET', f'/resource_providers/{ident}/inventories')['inventories'][resource]['total']
        return total - self.call('GET', f'/resource_providers/{ident}/usages')['usages'][resource]

    def root(self, ident):
        return self.providers[ident]['root_provider_uuid']
