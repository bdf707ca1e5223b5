"""What tests share with nova/tests/unit/test_metadata.py."""
import base64
import datetime
import uuid

from nova import conf as nova_conf
from nova import objects
from nova.api.metadata import app
from nova.db import engine
from nova.db.cells import cells
from nova.db.servers import instances
from nova.db.servers import request_specs
from nova.db.tables import network as tables_network
from nova.tests import schemas

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5)
KEY = 'ssh-ed25519 AAAA me@home'


def instance_row(**values):
    flavor = {'name': 'm1.tiny'}
    row = {
        'uuid': str(uuid.uuid4()), 'project_id': 'project-1', 'user_id': 'user-1', 'created_at': NOW,
        'updated_at': NOW, 'vm_state': 'active', 'task_state': None, 'power_state': 1, 'progress': 0,
        'locked': False, 'display_name': 'web server', 'hostname': 'web-server', 'reservation_id': 'r-1',
        'launch_index': 0, 'image_id': str(uuid.uuid4()), 'kernel_id': None, 'ramdisk_id': None,
        'availability_zone': 'nova', 'root_device_name': '/dev/vda', 'key_name': 'mykey', 'key_data': KEY,
        'launched_at': None,
        'user_data': base64.b64encode(b'#!/bin/sh\necho hi\n').decode(), 'config_drive': False,
        'disk_config': 'MANUAL', 'metadata': {'role': 'web'}, 'flavor_id': '1', 'flavor': flavor, 'vcpus': 1,
        'memory_mb': 64, 'root_gb': 1, 'ephemeral_gb': 0, 'image_properties': {}, 'network_info': network_info(),
        'security_groups': ['default'], 'volumes': [], 'system_metadata': {}, 'tags': '', 'category': 'regular',
        'numa_topology': None,
    }
    return {**row, **values}


def network_info(address='10.0.0.5'):
    subnet = {'id': 's', 'cidr': '10.0.0.0/24', 'version': 4, 'gateway': '10.0.0.1', 'dns': ['10.0.0.1'],
              'ips': [{'address': address, 'type': 'fixed', 'floating_ips': []}], 'routes': []}
    return [{'id': 'port-1', 'address': 'fa:16:3e:00:00:01', 'type': 'bridge', 'devname': 'tapport-1',
             'active': True, 'tag': 'lan', 'network': {'id': 'n', 'label': 'net', 'bridge': 'br', 'mtu': 1500,
                                                       'subnets': [subnet]}}]


def make_instance(**values):
    return objects.Instance.from_row(instance_row(**values))


def subnet(version, mode=None, dhcp=False):
    cidr, first = {4: ('10.0.0.0/24', '10.0.0.'), 6: ('fd00::/64', 'fd00::')}[version]
    return {'id': 's', 'cidr': cidr, 'version': version, 'gateway': first + '1', 'dns': [first + '2'], 'routes': [
        {'destination': '10.9.0.0/16', 'nexthop': '10.0.0.3'}] if version == 4 else [],
        'ips': [{'address': first + '5', 'type': 'fixed'}], 'ipv6_address_mode': mode,
        'dhcp_server': first + '2' if dhcp or mode else None}


def interface(*subnets, number=0, domain=''):
    return {'id': f'port-{number}', 'address': f'fa:16:3e:00:00:0{number}', 'type': 'bridge',
            'devname': f'tapport-{number}', 'network': {'id': 'n', 'mtu': 1400, 'dns_domain': domain,
                                                        'subnets': list(subnets)}}


def served(directory, **options):
    """(app, instance row): the service over real databases with one instance at 10.0.0.5."""
    api_db = engine.Database(f'sqlite:///{directory}/api.sqlite')
    cell_db = engine.Database(f'sqlite:///{directory}/cell.sqlite')
    schemas.create(api_db, 'api')
    schemas.create(cell_db, 'cell')
    row = instance_row()
    with cell_db.writer() as conn:
        instances.insert(conn, [row])
    spec = objects.RequestSpec(
        instance_uuid=row['uuid'], project_id='project-1', user_id='user-1', flavor={}, image={},
        availability_zone=None, requested_networks=None, security_groups=[], admin_password='canary-password',
        injected_files=[{'path': '/etc/motd', 'contents': base64.b64encode(b'hello').decode()}],
        block_devices=[], hints={}, force_host=None, force_node=None, requested_host=None, requested_node=None,
        retry_hosts=[], num_instances=1)
    with api_db.writer() as conn:
        request_specs.insert(conn, [spec])
        stamps = {'created_at': NOW, 'updated_at': NOW}
        conn.execute(tables_network.ports.insert(), {
            'id': 'port-1', 'network_id': 'n', 'mac_address': 'fa:16:3e:00:00:01', 'device_id': row['uuid'],
            **stamps})
        conn.execute(tables_network.addresses.insert(), {
            'subnet_id': 's', 'number': 5, 'address': '10.0.0.5', 'port_id': 'port-1'})
    conf = nova_conf.new(files=[], metadata__shared_secret='proxy secret', **options)
    yield app.Application(conf, api_db, cells.Cells(conf, api_db, cell_db)), row
    api_db.dispose()
    cell_db.dispose()
