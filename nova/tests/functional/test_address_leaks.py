"""Random operations of the network service with database faults: tools/address_leaks.py in short."""
import importlib.util
import pathlib

from nova.db.networks import networks
from nova.db.tables import network as t

TOOL = pathlib.Path(__file__).resolve().parents[3] / 'tools' / 'address_leaks.py'
spec = importlib.util.spec_from_file_location('address_leaks', TOOL)
leaks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(leaks)


def test_fault_injection_leaks_no_addresses(tmp_path):
    assert leaks.search(f'sqlite:///{tmp_path}/x.sqlite', 300, odds=0.03) == []


def test_a_leak_is_found(tmp_path):
    storm = leaks.Storm(f'sqlite:///{tmp_path}/x.sqlite', 0)
    try:
        storm.boot('a')
        assert storm.leaks() == []
        server, = storm.servers
        with storm.db.writer() as conn:
            port, = networks.many(conn, t.ports, [server], 'device_id')
            networks.delete(conn, t.ports, port['id'])
        assert 'which is gone' in storm.leaks()[0]
        storm.clear()
        assert 'is taken still' in storm.left()[0]
    finally:
        storm.db.dispose()
