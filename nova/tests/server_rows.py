"""Rows of servers for tests that begin with servers already there."""
import datetime
import uuid

import sqlalchemy as sa

from nova.db.tables import cell as tables_cell

START = datetime.datetime(2026, 1, 1, 12, 0, 0)
IMAGE_ID = '70a599e0-31e7-49b7-b260-868f441e862b'
NETWORK_ID = '3cb9bc59-5699-4588-a4b1-b87f96708bc6'

FLAVOR = {'id': 1, 'flavor_id': '42', 'name': 'm1.tiny', 'memory_mb': 512, 'vcpus': 1, 'root_gb': 1,
          'ephemeral_gb': 0, 'swap': 0, 'rxtx_factor': 1.0, 'is_public': True, 'disabled': False,
          'description': None, 'extra_specs': {'hw:cpu_policy': 'shared'}}


def vif(number):
    """A VIF with one IPv4 and one IPv6 address made from the number."""
    port = str(uuid.UUID(int=number + (1 << 100)))
    mac = f'fa:16:3e:00:{number // 256 % 256:02x}:{number % 256:02x}'
    return {'id': port, 'address': mac, 'type': 'bridge', 'devname': 'tap' + port[:11],
            'active': True, 'tag': None, 'network': {
                'id': NETWORK_ID, 'label': 'private', 'bridge': 'br100', 'mtu': 1500, 'subnets': [
                    {'id': str(uuid.UUID(int=1)), 'cidr': '10.0.0.0/16', 'version': 4, 'gateway': '10.0.0.1',
                     'dns': [], 'routes': [], 'dhcp_server': '10.0.0.2',
                     'ips': [{'address': f'10.0.{number // 250}.{number % 250 + 3}', 'type': 'fixed',
                              'floating_ips': []}]},
                    {'id': str(uuid.UUID(int=2)), 'cidr': 'fd00::/64', 'version': 6, 'gateway': None,
                     'dns': [], 'routes': [], 'dhcp_server': None,
                     'ips': [{'address': f'fd00::{number + 1:x}', 'type': 'fixed', 'floating_ips': []}]}]}}


def row(number=0, **values):
    """Values of one active server; ``number`` makes it differ from its neighbours."""
    moment = START + datetime.timedelta(seconds=number)
    name = f'server-{number}'
    return {
        'uuid': str(uuid.uuid4()), 'project_id': 'a' * 32, 'user_id': 'b' * 32, 'created_at': moment,
        'updated_at': moment, 'launched_at': moment, 'terminated_at': None, 'deleted_at': None,
        'vm_state': 'active', 'task_state': None, 'power_state': 1, 'progress': 0, 'locked': False,
        'locked_by': None, 'locked_reason': None, 'host': 'host1', 'node': 'node1',
        'availability_zone': 'nova', 'pinned_availability_zone': None, 'display_name': name,
        'description': None, 'hostname': name, 'reservation_id': 'r-12345678', 'launch_index': 0,
        'image_id': IMAGE_ID, 'kernel_id': None, 'ramdisk_id': None, 'root_device_name': '/dev/vda',
        'key_name': None, 'key_data': None, 'user_data': None, 'config_drive': False, 'access_ip_v4': None,
        'access_ip_v6': None, 'disk_config': 'MANUAL', 'trusted_certs': None, 'scheduler_hints': None,
        'metadata': {'role': 'web'}, 'tags': '', 'flavor_id': '42', 'flavor': FLAVOR, 'vcpus': 1,
        'memory_mb': 512, 'root_gb': 1, 'ephemeral_gb': 0, 'image_properties': {'hw_disk_bus': 'virtio'},
        'network_info': [vif(number)], 'security_groups': ['default'], 'volumes': [], 'system_metadata': {},
        'fault': None, 'server_group_id': None, 'category': 'regular', **values}


def insert(conn, rows, deleted=False):
    """Put rows into the cell's database, into the history when ``deleted``."""
    table = tables_cell.instances_history if deleted else tables_cell.instances
    conn.execute(sa.insert(table), rows)
