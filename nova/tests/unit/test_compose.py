"""Whom the services of a process ask."""
import types

import pytest

from nova import conf as nova_conf
from nova.cloud import assembly
from nova.db import engine
from nova.tests import schemas
from nova.virt import fake


class Bus:
    """Remembers what is asked of the network services."""

    pins = None

    def __init__(self):
        self.asked = []

    def of_host(self, host):
        return self

    def client(self, interface):
        def send(context, **arguments):
            self.asked.append((interface.topic, arguments))
        return types.SimpleNamespace(**dict.fromkeys(interface.methods, send))

    def serve(self, interface, manager, host, admission):
        return None


@pytest.mark.parametrize(('driver', 'network', 'server'), [
    ('libvirt', 'linux', {'server': 'host1'}), ('libvirt', 'fake', {}), ('fake', 'linux', {})])
def test_the_plumbing_of_real_guests_is_their_hosts(monkeypatch, driver, network, server):
    conf, bus = nova_conf.new(files=[], compute_driver=driver, network__driver=network), Bus()
    driver_of = {'libvirt': type('Real', (fake.FakeDriver,), {'real_guests': True}), 'fake': fake.FakeDriver}[driver]
    monkeypatch.setattr(assembly, 'virt_driver', lambda conf, host, images, _helper: driver_of(conf, host, images))
    manager = assembly.compute(conf, bus, 'host1', None).manager
    manager.host.network.network_info(None, instance_uuid='u')
    assert bus.asked == [('network', {'instance_uuid': 'u', **server})]


def test_a_network_service_looks_after_what_it_has_just_given(tmp_path, monkeypatch):
    conf, given = nova_conf.new(files=[], network__driver='fake'), []
    api_db = engine.Database(f'sqlite:///{tmp_path}/api.sqlite')
    schemas.create(api_db, 'api')
    made = assembly.network(conf, Bus(), 'host1', api_db, api_db)
    monkeypatch.setattr(made.manager, 'audit', lambda *arguments: given.append(arguments))
    task, = [function for name, _seconds, function in made._tasks if name == 'audit_late']
    task()
    assert given == []
    monkeypatch.setattr(made.manager, 'recent_allocations', lambda: {'u'})
    task()
    assert given == [(set(), {'u'})]
    api_db.dispose()
