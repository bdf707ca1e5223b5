"""What tests share with nova/tests/integration/test_libvirt_ceph.py."""
import uuid

from nova.tests import ceph as cephs

ceph = cephs.ceph
SECRET = '5b1d2c60-7d0e-4c5e-9a35-0c9d6e0f7a11'


def device(ceph, name, device_name='/dev/vdb', **values):
    """A row of block_device_mappings of an image in the pool, connected as Cinder's RBD driver tells it."""
    host, port = ceph.monitor
    return {'uuid': str(uuid.uuid4()), 'volume_id': name, 'destination_type': 'volume', 'source_type': 'volume',
            'device_name': device_name, 'volume_size': 1, 'boot_index': None, 'connection_info': {
                'driver_volume_type': 'rbd', 'data': {
                    'name': f'{ceph.pool}/{name}', 'hosts': [host], 'ports': [str(port)], 'auth_enabled': True,
                    'auth_username': ceph.user, 'secret_uuid': SECRET,
                    'secret_type': 'ceph', 'keyring': f'[client.{ceph.user}]\n\tkey = {ceph.key}\n'}}, **values}
