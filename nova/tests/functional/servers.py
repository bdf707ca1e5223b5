"""A compute API with flavors, an image and a host, whose messages are recorded instead of sent."""
import pathlib

import sqlalchemy as sa

from nova import context
from nova import exception
from nova import utils
from nova.db import flavors
from nova.db import instances_list
from nova.db import tables_cell
from nova.image import api as image_api
from nova.image import embedded
from nova.network import api as network_api
from nova.network import setup
from nova.tests import server_rows
from nova.tests.functional import base

HOST, NODE, ZONE = 'host1', 'node1', 'nova'


class Recorder:
    """Stands for an RPC client: ``sent`` has (method, server, arguments) of every message."""

    def __init__(self, answers=None):
        self.sent, self.answers, self.down = [], answers or {}, False

    def __getattr__(self, name):
        def send(context, server=None, **arguments):
            if self.down:
                raise exception.ServiceUnavailable(service='test')
            self.sent.append((name, server, arguments))
            return self.answers.get(name)
        return send


class Servers(base.ApiFixture):
    """The application with one flavor ('1': 1 vCPU, 512 MiB, 1 GiB), an active image and an up host."""

    def __init__(self, directory, **overrides):
        self.directory = pathlib.Path(directory)
        super().__init__(directory, **overrides)
        self.conductor, self.compute = Recorder(), Recorder({'get_console_output': 'line 1\nline 2\n'})
        services = self.services
        services.conductor, services.compute = self.conductor, self.compute
        services.networks = network_api.API(self.api_db)
        self.network_id = setup.bootstrap(self.conf, self.api_db)
        services.images = image_api.EmbeddedImages(
            embedded.Store(self.api_db, str(self.directory / 'images')))
        self.owner = context.RequestContext(user_id=base.USER, project_id=base.PROJECT, roles=['admin'],
                                            is_admin=True, overwrite=False)
        with self.api_db.writer() as conn:
            flavors.create(conn, {'flavor_id': '1', 'name': 'm1.tiny', 'memory_mb': 512,
                           'vcpus': 1, 'root_gb': 1, 'extra_specs': {'hw:cpu_policy': 'shared'}})
        with self.cell_db.writer() as conn:
            self.add_host(conn)
        self.image_id = self.add_image()

    def add_image(self, **values):
        """An active raw image; its id."""
        image = self.services.images.create(self.owner, {
            'name': 'cirros', 'disk_format': 'raw', 'container_format': 'bare', 'visibility': 'public',
            'properties': {'hw_disk_bus': 'virtio'}, **values})
        data = self.directory / 'image.raw'
        data.write_bytes(b'\0' * 4096)
        self.services.images.upload(self.owner, image['id'], str(data), 'raw')
        return image['id']

    def add_host(self, conn, host=HOST, node=NODE, **capabilities):
        now = utils.utcnow()
        conn.execute(
    sa.insert(
        tables_cell.services).values(
            uuid=host.ljust(
                36,
                '0'),
                host=host,
                binary='nova-compute',
                topic='compute',
                availability_zone=ZONE,
                version=1,
                created_at=now,
                last_seen_at=now,
                disabled=False,
                 forced_down=False))
        conn.execute(sa.insert(tables_cell.compute_nodes).values(
            uuid=node.ljust(36, '0'), host=host, node=node, created_at=now, updated_at=now, changed=1,
            hypervisor_type='fake', hypervisor_version=1, vcpus=8, memory_mb=8192, local_gb=100,
            cpu_allocation_ratio=4.0, ram_allocation_ratio=1.0, disk_allocation_ratio=1.0,
            capabilities={'pause': True, 'suspend': True, 'snapshot': True, **capabilities},
            supported_instances=[]))

    def add_servers(self, *rows, deleted=False):
        """Rows as server_rows.row makes them, of this fixture's image; their uuids."""
        with self.cell_db.writer() as conn:
            server_rows.insert(conn, [{**row, 'image_id': self.image_id} for row in rows], deleted=deleted)
        return [row['uuid'] for row in rows]

    def add_server(self, number=0, **values):
        return self.add_servers(server_rows.row(number, **{'project_id': base.PROJECT, **values}))[0]

    def row(self, uuid):
        with self.cell_db.reader() as conn:
            return instances_list.by_uuid(conn, uuid)

    def body(self, **values):
        """A body of POST /servers."""
        return {'server': {'name': 'vm', 'imageRef': self.image_id, 'flavorRef': '1', **values}}
