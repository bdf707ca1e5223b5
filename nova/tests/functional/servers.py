"""A compute API with flavors, an image and a host, whose messages are recorded instead of sent."""
import pathlib
import uuid

import sqlalchemy as sa

from nova import context
from nova import exception
from nova import utils
from nova.db.networks import networks
from nova.db.projects import flavors
from nova.db.servers import block_devices
from nova.db.servers import listing
from nova.db.servers import shares
from nova.db.tables import cell as tables_cell
from nova.db.tables import network as tables_network
from nova.image.embedded.images import EmbeddedImages
from nova.image.embedded import service as embedded
from nova.network import api as network_api
from nova.network import ipam
from nova.network import setup
from nova.share import api as share_api
from nova.tests import server_rows
from nova.tests.support import waiting
from nova.tests.functional import base
from nova.virt import driver
from nova.volume import embedded as block_storage

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


KEY = 'QUJD' * 10                        # of a user of Ceph


class Shares(share_api.Shares):
    """A Shared File Systems service that has these shares.

    allowed    {(share id, host)}
    project_id   whose they are, where a share does not say
    """

    project_id = base.PROJECT

    def __init__(self):
        self.shares, self.allowed = {}, set()

    def add(self, status='available', protocol='NFS', **values):
        share_id = str(uuid.uuid4())
        self.shares[share_id] = {'id': share_id, 'status': status, 'export_location': '192.0.2.9:/' + share_id,
                                 'protocol': protocol, **values}
        return share_id

    def get(self, ctx, share_id):
        if share_id not in self.shares:
            raise exception.ShareNotFound(share_id=share_id)
        return {'project_id': self.project_id, **self.shares[share_id]}

    def allow(self, ctx, share_id, host, protocol):
        self.allowed.add((share_id, host))
        return {'user': f'nova-{share_id}', 'key': KEY} if protocol == 'CEPHFS' else None

    def deny(self, ctx, share_id, host, protocol):
        self.allowed.discard((share_id, host))


class Servers(base.ApiFixture):
    """The application with one flavor ('1': 1 vCPU, 512 MiB, 1 GiB), an active image and an up host."""

    def __init__(self, directory, **overrides):
        self.directory = pathlib.Path(directory)
        super().__init__(directory, **overrides)
        self.conductor, self.compute = Recorder(), Recorder({
            'get_console_output': 'line 1\nline 2\n', 'attach_interface': server_rows.vif(1)})
        services = self.services
        services.conductor, services.compute = self.conductor, self.compute
        services.network = Recorder()
        services.networks = network_api.API(self.api_db, self.conf)
        self.network_id = setup.bootstrap(self.conf, self.api_db)
        services.images = EmbeddedImages(
            embedded.Store(self.api_db, str(self.directory / 'images')))
        services.volumes = block_storage.EmbeddedVolumes(self.conf, self.api_db, services.images)
        services.shares = Shares()
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
            uuid=node.ljust(36, '0'), host=host, node=node, created_at=now, updated_at=now, change_number=1,
            hypervisor_type='fake', hypervisor_version=1, vcpus=8, memory_mb=8192, local_gb=100,
            cpu_allocation_ratio=4.0, ram_allocation_ratio=1.0, disk_allocation_ratio=1.0,
            capabilities={**{driver.name_of(feature): True for feature in driver.FEATURES}, **capabilities},
            supported_instances=[]))

    def add_port(self, ident, **values):
        """A port of the first network without an address; its row."""
        row = {'id': ident, 'project_id': base.PROJECT, 'network_id': self.network_id, 'name': '',
               'mac_address': ipam.new_mac(), 'admin_state_up': True, 'status': 'ACTIVE', 'device_id': '',
               'device_owner': '', 'host': '', 'position': 0, 'tag': None, 'created_by_compute': True,
               'description': '', **values}
        with self.api_db.writer() as conn:
            networks.insert(conn, tables_network.ports, [row])
        return row

    def add_servers(self, *rows, deleted=False):
        """Rows as server_rows.row makes them, of this fixture's image; their uuids."""
        with self.cell_db.writer() as conn:
            server_rows.insert(conn, [{**row, 'image_id': self.image_id} for row in rows], deleted=deleted)
        return [row['uuid'] for row in rows]

    def add_volume(self, server_id=None, size=1, **values):
        """A volume of the project, attached to a server when one is named; its id."""
        volumes = self.services.volumes
        volume_id = volumes.create(self.owner, size, **values)['id']
        waiting.wait_for(lambda: volumes.get(self.owner, volume_id)['status'] == 'available', 60, 'the volume')
        if server_id:
            attachment = volumes.attach(self.owner, volume_id, server_id)
            volumes.connect(self.owner, attachment, {'host': HOST}, '/dev/vdx')
            volumes.complete(self.owner, attachment)
            with self.cell_db.writer() as conn:
                taken = len(block_devices.by_instance(conn, server_id))
                block_devices.insert(conn, server_id, [{
                    'source_type': 'volume', 'destination_type': 'volume', 'volume_id': volume_id,
                    'attachment_id': attachment, 'device_name': f'/dev/vd{"bcdefghijklmnopqrstuvwxyz"[taken]}'}])
                block_devices.show_volumes(conn, server_id)
        return volume_id

    def add_snapshot(self):
        """A snapshot of a volume of the project; its id."""
        volumes = self.services.volumes
        ident = volumes.create_snapshot(self.owner, self.add_volume(), 's')['id']
        waiting.wait_for(lambda: volumes.get_snapshot(self.owner, ident)['status'] == 'available', 60, 'the snapshot')
        return ident

    def add_share(self, server_id):
        """A share that the server has; its id."""
        share_id = self.services.shares.add()
        with self.cell_db.writer() as conn:
            shares.insert(conn, {'instance_uuid': server_id, 'share_id': share_id, 'status': 'attached',
                                 'tag': share_id, 'export_location': '192.0.2.9:/x', 'protocol': 'NFS'})
        return share_id

    def add_server(self, number=0, **values):
        return self.add_servers(server_rows.row(number, **{'project_id': base.PROJECT, **values}))[0]

    def row(self, uuid):
        with self.cell_db.reader() as conn:
            return listing.by_uuid(conn, uuid)

    def body(self, **values):
        """A body of POST /servers."""
        return {'server': {'name': 'vm', 'imageRef': self.image_id, 'flavorRef': '1', **values}}
