"""The connection to libvirt, with libvirt's own driver for tests, and what an event or a start costs on a full host."""
import contextlib
import socket
import threading
import time
import types
import uuid

import pytest

libvirt = pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova import exception
from nova import states
from nova.compute import power_states
from nova.tests.support import waiting
from nova.tests.support import libvirt_moves as moves
from nova.virt.libvirt import calls
from nova.virt.libvirt import host as hosts
from nova.virt.libvirt.domain import volume_disks as disk
from nova.virt.libvirt.local_disks import records
from nova.virt.libvirt.local_disks import storage

OWNER = '/guests'
MAC = '52:54:00:aa:bb:cc'
DOMAIN = '''<domain type='test'><name>{name}</name><uuid>{uuid}</uuid><memory>1024</memory><os><type>hvm</type></os>
<title>{title}</title>{metadata}<devices>{devices}</devices></domain>'''
METADATA = "<metadata><o:owner xmlns:o='urn:nova:libvirt:owner:1' directory='{}'/></metadata>"
PORT = f"<interface type='bridge'><mac address='{MAC}'/><source bridge='br'/></interface>"


@pytest.fixture
def connection():
    """Of libvirt's driver for tests, whose domains every connection of this process has."""
    made = libvirt.open('test:///default')
    known = {domain.UUIDString() for domain in made.listAllDomains()}
    yield made
    for domain in made.listAllDomains():
        if domain.UUIDString() not in known:
            with contextlib.suppress(libvirt.libvirtError):
                domain.destroy()
            domain.undefine()
    made.close()


def define(connection, owner=OWNER, title='', devices=''):
    ident = str(uuid.uuid4())
    connection.defineXML(DOMAIN.format(name=ident, uuid=ident, title=title, devices=devices,
                                       metadata=METADATA.format(owner) if owner else ''))
    return ident


@pytest.fixture
def host(monkeypatch):
    # libvirt's driver for tests has neither a connection to keep alive nor one that closes
    monkeypatch.setattr(hosts, '_open', lambda uri, _mailbox: libvirt.open(uri))
    made = hosts.Host('test:///default', OWNER, lambda ident: None)
    made.connect()
    yield made
    made.close()


# ---- states

def test_the_state_of_one_guest_is_that_of_the_list(connection, host):
    ours, foreign, unmarked = define(connection), define(connection, '/others'), define(connection, None)
    assert host.guests() == {ours: states.SHUTDOWN} and host.guest_state(ours) == states.SHUTDOWN
    assert host.guest_state(foreign) is host.guest_state(unmarked) is host.guest_state(str(uuid.uuid4())) is None
    connection.lookupByUUIDString(ours).create()
    assert host.guest_state(ours) == host.guests()[ours] == states.RUNNING


def test_guest_that_is_off_is_not_suspended(connection, host):
    ident = define(connection)
    with pytest.raises(exception.VirtError):
        host.guest('suspend the guest', ident, calls.save)
    domain = connection.lookupByUUIDString(ident)
    domain.create()
    for _repetition in range(2):
        host.guest('suspend the guest', ident, calls.save)
        assert domain.hasManagedSaveImage() and not domain.isActive()
    domain.managedSaveRemove()


class Driver:
    """A driver that knows the state of one guest and lists none."""

    def __init__(self, state):
        self.state, self.asked = state, 0

    def guest_state(self, _ident):
        self.asked += 1
        return self.state

    def guests(self):
        raise AssertionError('an event lists all guests of the host')


@pytest.mark.parametrize(('known', 'state', 'reported'), [
    ({}, states.RUNNING, [states.RUNNING]), ({'u': states.RUNNING}, states.RUNNING, []),
    ({'u': states.RUNNING}, states.SHUTDOWN, [states.SHUTDOWN]), ({'u': states.RUNNING}, None, [states.NOSTATE])])
def test_an_event_asks_for_the_state_of_its_guest_once(known, state, reported):
    sent = []
    compute = types.SimpleNamespace(
        driver=Driver(state), power_states=known, name='host1', conductor=types.SimpleNamespace(
            report_power_states=lambda ctx, host, states: sent.append(states)))
    power_states.PowerStates(compute, None, None)._report_changed('u')
    assert sent == [{'u': each} for each in reported] and compute.driver.asked == 1


# ---- a libvirtd that stands still

def test_a_connection_that_does_not_open_holds_up_nothing_else(tmp_path, monkeypatch):
    """Every operation waited, without a bound, for the one that was opening it; so did the stop of the service."""
    monkeypatch.setattr(hosts, 'RESTARTS_S', 1)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / 'socket'))
        silent.listen()                          # it takes connections and says nothing
        made = hosts.Host(f'test+unix:///default?socket={tmp_path}/socket', OWNER, lambda ident: None)
        results = []

        def ask():
            with pytest.raises(exception.VirtError) as caught:
                made.guests()
            results.append(caught.value.message)
        began = time.monotonic()
        threads = [threading.Thread(target=ask, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert len(results) == 3 and all('does not answer' in each for each in results)
        made.close()
        assert time.monotonic() - began < 8


# ---- devices

def test_a_port_is_found_by_its_device_and_not_by_a_name(connection):
    """A server whose name was the MAC of its port: nothing was plugged, and a detach waited for it to go."""
    domain = connection.lookupByUUIDString(define(connection, title=MAC))
    path = calls.interface_path(MAC.upper())
    assert not calls.holds_device(domain, path)
    domain.create()
    assert MAC in domain.XMLDesc(0) and not calls.holds_device(domain, path)
    with_port = connection.lookupByUUIDString(define(connection, devices=PORT))
    assert not calls.holds_device(with_port, path)                # it is off
    with_port.create()
    assert calls.holds_device(with_port, path)


class Recording:
    """A domain that notes what is plugged into it; libvirt's driver for tests takes no devices."""

    def __init__(self, domain):
        self._domain, self.plugged, self.unplugged = domain, [], []

    def __getattr__(self, name):
        return getattr(self._domain, name)

    def attachDeviceFlags(self, text, flag):
        self.plugged.append(flag)

    def detachDeviceFlags(self, text, flag):
        self.unplugged.append(flag)


@pytest.mark.parametrize(('path', 'title'), [
    (calls.interface_path(MAC), MAC),
    (disk.Volume('v', 'vdc', 'virtio', {}).path, "<target dev='vdc'")])
def test_a_device_is_plugged_where_a_name_alone_looks_like_it(connection, path, title):
    text = title.replace('<', '&lt;')
    domain = Recording(connection.lookupByUUIDString(define(connection, title=text)))
    domain.create()
    calls.plug(domain, PORT, path)
    calls.ask_to_unplug(domain, PORT, path)
    calls.undefine_device(domain, PORT, path)
    assert domain.plugged == [libvirt.VIR_DOMAIN_AFFECT_CONFIG, libvirt.VIR_DOMAIN_AFFECT_LIVE]
    assert domain.unplugged == []


# ---- records

def test_a_record_is_read_again_when_it_has_changed(tmp_path, monkeypatch):
    """Each start of a guest read the records of all others."""
    one = storage.Storage(str(tmp_path), None, None, host='one')
    two = storage.Storage(str(tmp_path), None, None, host='two')
    idents = [str(uuid.uuid4()) for _ in range(3)]
    for ident in idents:
        (tmp_path / ident).mkdir()
        guest = moves.record(one)
        guest.uuid = ident
        one.save(guest)
    read, usual = [], records.read
    monkeypatch.setattr(records, 'read', lambda directory: read.append(directory) or usual(directory))
    assert sorted(guest.uuid for guest in one.guests()) == sorted(idents) and len(read) == 3
    assert len(one.guests()) == len(one.records()) == 3 and len(read) == 3
    changed = one.load(idents[0])
    changed.resources.vcpus = 7
    one.save(changed)
    two.save(two.load(idents[1]))                # another host takes it over
    read.clear()
    assert {guest.uuid: guest.resources.vcpus for guest in one.guests()} == {idents[0]: 7, idents[2]: 1}
    assert len(read) == 2
    one.forget(idents[2])
    (tmp_path / 'no-guest').mkdir()
    assert [guest.uuid for guest in one.guests()] == [idents[0]] and len(read) == 2


def test_a_libvirt_that_is_lost_is_reported_once_and_again_when_it_answers(monkeypatch):
    monkeypatch.setattr(hosts, 'RECONNECT_GRACE_S', 0.3)
    monkeypatch.setattr(hosts, 'RESTARTS_S', 0.3)
    monkeypatch.setattr(hosts, 'RECONNECT_MAX', 0.5)
    answers = []

    def open_connection(uri, _mailbox):
        if not answers:
            raise libvirt.libvirtError('Connection refused')
        return libvirt.open(uri)
    monkeypatch.setattr(hosts, '_open', open_connection)
    reports = []
    made = hosts.Host('test:///default', OWNER, lambda ident: None, reports.append)
    thread = threading.Thread(target=made._reconnect, daemon=True)
    thread.start()
    waiting.wait_for(lambda: reports, 10, 'the report')
    with pytest.raises(exception.HypervisorUnreachable):
        made.guests()
    answers.append(True)
    thread.join(10)
    assert reports == ['libvirt does not answer (Connection refused)', ''] and made.guests() == {}
    made.close()


def test_a_restart_of_libvirt_is_not_reported(host, monkeypatch):
    reports = []
    host._on_answer = reports.append
    host._reconnect()
    assert reports == []
