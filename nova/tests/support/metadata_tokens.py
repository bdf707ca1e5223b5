"""What tests share with nova/tests/unit/test_metadata_tokens.py."""
import pytest
import requests

from nova import conf as nova_conf
from nova.api.metadata import app
from nova.api.metadata import tokens
from nova.db import engine
from nova.db.cells import cells
from nova.db.servers import instances
from nova.db.tables import network as tables_network
from nova.runtime import wsgi
from nova.tests import schemas
from nova.tests.support import metadata as test_metadata

ID = '/latest/meta-data/instance-id'
ADDRESSES = ('127.0.0.1', '127.0.0.2', '127.0.0.3', '127.0.0.4')
SECRET = 'proxy secret'


class Metadata:
    """The service at a port of its own; its guests are the addresses of ADDRESSES.

    :param rows: what the servers' rows say beside the usual
    """

    def __init__(self, directory, rows=({}, {}, {}), **options):
        self.api_db = engine.Database(f'sqlite:///{directory}/api.sqlite')
        self.cell_db = engine.Database(f'sqlite:///{directory}/cell.sqlite')
        schemas.create(self.api_db, 'api')
        schemas.create(self.cell_db, 'cell')
        self.rows = [test_metadata.instance_row(**values) for values in rows]
        with self.cell_db.writer() as conn:
            instances.insert(conn, self.rows)
        with self.api_db.writer() as conn:
            for number, (row, address) in enumerate(zip(self.rows, ADDRESSES)):
                conn.execute(tables_network.ports.insert(), {
                    'id': f'port-{number}', 'network_id': 'n', 'mac_address': f'fa:16:3e:00:00:0{number}',
                    'device_id': row['uuid'], 'created_at': test_metadata.NOW, 'updated_at': test_metadata.NOW})
                conn.execute(tables_network.addresses.insert(), {
                    'subnet_id': 's', 'number': number, 'address': address, 'port_id': f'port-{number}'})
        self.conf = nova_conf.new(files=[], metadata__shared_secret=SECRET, **options)
        self.servers, self.url = [], None
        self.serve()

    def serve(self):
        """Another process of the service: what it keeps in memory is empty."""
        application = app.Application(self.conf, self.api_db, cells.Cells(self.conf, self.api_db, self.cell_db))
        server = wsgi.Server(application, '127.0.0.1', 0, threads=8)
        server.listen()
        server.start()
        self.servers.append(server)
        self.url = f'http://127.0.0.1:{server.port}'

    def ask(self, path=ID, method='GET', guest=0, **headers):
        """A request of a guest."""
        with requests.Session() as session:
            session.trust_env = False
            adapter = requests.adapters.HTTPAdapter()
            adapter.poolmanager.connection_pool_kw['source_address'] = (ADDRESSES[guest], 0)
            session.mount('http://', adapter)
            return session.request(method, self.url + path, timeout=20, headers={
                name.replace('_', '-'): value for name, value in headers.items()})

    def token(self, guest=0, ttl='60', **headers):
        answer = self.ask(app.TOKEN_PATH, 'PUT', guest, **{tokens.TTL: ttl, **headers})
        return answer.status_code, answer.text

    def stop(self):
        for server in self.servers:
            server.stop(1)
        self.api_db.dispose()
        self.cell_db.dispose()


@pytest.fixture
def start(tmp_path):
    made = []

    def begin(**values):
        made.append(Metadata(tmp_path, **values))
        return made[-1]
    yield begin
    for each in made:
        each.stop()
