"""What tests share with nova/tests/functional/test_pci.py."""
import json

from nova.db import statements
from nova.db.tables.cell import pci_devices as table
from nova.objects import pci

GPUS = [{'address': f'0000:8{number}:00.0', 'vendor_id': '10de', 'product_id': '20b0'} for number in range(2)]
CARD = [{'address': '0000:0a:00.0', 'vendor_id': '8086', 'product_id': '154d', 'dev_type': 'type-PF'},
        *({'address': f'0000:0a:00.{number}', 'vendor_id': '8086', 'product_id': '10ed', 'dev_type': 'type-VF',
           'parent_addr': '0000:0a:00.0'} for number in (1, 2))]
SPECS = ['{"vendor_id": "10de"}', '{"vendor_id": "8086", "physical_network": "net1"}']


def flavor(count=1, name='gpu', **spec):
    """What a server keeps of a flavor that asks for devices."""
    spec = spec or {'vendor_id': '10de', 'dev_type': 'type-PCI'}
    return {'pci_requests': pci.dump([pci.Request(count, (spec,), alias_name=name)])}


def options(devices=GPUS):
    """Of a cloud whose hosts have these devices, for guests."""
    return {'fake__pci_devices': [json.dumps(devices)], 'pci__device_spec': SPECS}


def stored(db):
    """All rows of devices."""
    with db.reader() as conn:
        return statements.rows(conn, table, ('host', 'address'))


def rows(cloud, host=None):
    return [row for row in stored(cloud.db) if host in (None, row['host'])]


def owners(cloud):
    """{(host, address): (server, held)} of the devices that somebody has."""
    return {(row['host'], row['address']): (row['instance_uuid'], row['claimed_by_move'])
            for row in rows(cloud) if row['instance_uuid']}


def free(cloud):
    """{host: free devices as the scheduler's pools have them}."""
    return {host: sum(pool['count'] for pool in cloud.node(host)['pci_stats'] or ()) for host in cloud.computes}


def given(cloud):
    """{(host, address): server} as the guests have them."""
    return {(host, address): uuid for host, compute in cloud.computes.items()
            for uuid, guest in compute.driver.machine.guests.items() for address in guest['pci_devices']}
