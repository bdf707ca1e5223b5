"""What tests share with nova/tests/functional/test_network_api.py."""
import json
import os
import threading
from wsgiref import simple_server

import requests
from openstack import connection

from nova import context
from nova.network.rest import app
from nova.tests import warm_client
from nova.tests.support import network_manager as unit

USERS = {'admin': {'project_id': 'admin-project', 'user_id': 'root', 'is_admin': True,
                   'roles': ['admin', 'manager', 'member', 'reader']},
         'demo': {'project_id': 'p1', 'user_id': 'u1', 'roles': ['member', 'reader']},
         'other': {'project_id': 'p2', 'user_id': 'u2', 'roles': ['member', 'reader']}}


class Client:
    """Stands for the network service of the manager under test: a cast is a direct call."""

    def __init__(self, manager):
        self.manager, self.calls = manager, 0

    def refresh_ports(self, ctx, server=None, port_ids=()):
        self.calls += 1
        self.manager.refresh_ports(ctx, port_ids=port_ids)


class Quiet(simple_server.WSGIRequestHandler):
    def log_message(self, *args):
        pass


class Face(unit.Rig):
    """The rig, its HTTP face, and callers that a token's name chooses."""

    def __init__(self, path, **overrides):
        super().__init__(path, network__default_cidr='10.44.0.0/24', **overrides)
        self.client = Client(self.manager)
        self.app = app.Application(self.conf, self.db, self.client)
        self.server = simple_server.make_server('127.0.0.1', 0, self._authenticated, handler_class=Quiet)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f'http://127.0.0.1:{self.server.server_port}/network'

    def _authenticated(self, environ, start_response):
        environ['SCRIPT_NAME'], environ['PATH_INFO'] = (
            '/network',
            environ['PATH_INFO'].removeprefix('/network'),
        )
        user = USERS.get(environ.get('HTTP_X_AUTH_TOKEN'))
        if user:
            environ['nova.context'] = context.RequestContext(**user, overwrite=False)
        return self.app(environ, start_response)

    def __call__(self, user, method, path, body=None, **kwargs):
        return requests.request(method, f'{self.url}/v2.0/{path}', json=body,
                                headers={'X-Auth-Token': user} if user else {}, timeout=30, **kwargs)

    def sdk(self, user='admin', endpoint=''):
        return connection.Connection(auth_type='admin_token', auth={'endpoint': self.url, 'token': user},
                                     network_endpoint_override=self.url + endpoint, region_name='r')

    def cli(self, *arguments, user='admin', check=True):
        printing = ['-f', 'json'] if arguments[-2:] != ('-f', 'value') and not (
            {'delete', 'set', 'unset', 'add', 'remove'} & set(arguments)) else []
        code, printed = warm_client.client().run(
            ['--os-auth-type', 'admin_token', '--os-token', user, '--os-endpoint', self.url + '/v2.0', *arguments,
             *printing], {**os.environ, 'HOME': '/nonexistent'})
        if check:
            assert code == 0, printed
            return json.loads(printed) if printed.strip() else None
        return code, printed

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.db.dispose()
