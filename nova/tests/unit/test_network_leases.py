"""Leases of DHCP: from what dnsmasq calls to what operators see, and an address that is free when its lease is over."""
import datetime
import json
import os
import subprocess
import sys
import threading
import time
from concurrent import futures

import pytest
import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.db.networks import addresses
from nova.db.tables import network as t
from nova.network.agents import leases as reports
from nova.network.linux import dhcpbridge
from nova.network.linux import leases
from nova.tests.support import network_manager as unit

MAC = 'fa:16:3e:00:00:01'


def called(directory, *arguments, **more):
    environ = {'PATH': os.environ['PATH'], dhcpbridge.DIRECTORY: str(directory), **more}
    code = 'import sys\nfrom nova.network.linux.dhcpbridge import main\nsys.exit(main())'
    return subprocess.run([sys.executable, '-c', code, *arguments], env=environ, capture_output=True, text=True)


@pytest.mark.parametrize(('arguments', 'environ', 'lasts'), [
    (('add', MAC, '10.0.0.5', 'name'), {'DNSMASQ_LEASE_LENGTH': '600'}, 600),
    (('old', MAC.upper(), '10.0.0.5'), {'DNSMASQ_LEASE_EXPIRES': str(int(time.time()) + 7000)}, 7000),
    (('add', '00:01:00:01:2c', 'fd00::5'), {'DNSMASQ_MAC': MAC, 'DNSMASQ_LEASE_LENGTH': '60'}, 60),
    (('del', MAC, '10.0.0.5'), {'DNSMASQ_LEASE_EXPIRES': '0'}, 0),
])
def test_lease_command_records_the_leases_of_dnsmasq(tmp_path, arguments, environ, lasts):
    begun = time.time()
    assert main(tmp_path, arguments, environ) == 0
    lease, = leases.Leases(tmp_path).read([])
    assert (lease['mac'], lease['address']) == (MAC, arguments[2])
    assert begun + min(lasts, 600) - 1 <= lease['expires_at'] <= time.time() + lasts + 1
    # what has ended is read once, and its file is not left
    assert len(list(tmp_path.iterdir())) == (lasts > 0) and leases.Leases(tmp_path).read([]) == [lease] * (lasts > 0)


def test_files_of_leases_from_before_the_first_release_are_read(tmp_path):
    (tmp_path / 'one').write_text(json.dumps({'version': 1, 'readable_by': 1, 'mac': MAC, 'address': '10.0.0.5',
                                              'until': 2100000000}))
    (tmp_path / 'two').write_text(json.dumps({'version': 1, 'readable_by': 1, 'mac': MAC, 'address': '10.0.0.6',
                                              'until': 1}))
    assert leases.Leases(tmp_path).read([]) == [
        {'mac': MAC, 'address': '10.0.0.5', 'expires_at': 2100000000},
        {'mac': MAC, 'address': '10.0.0.6', 'expires_at': 1}]
    assert [path.name for path in tmp_path.iterdir()] == ['one']


def test_lease_files_beyond_the_limit_of_one_call_are_read_by_the_next_calls(tmp_path, monkeypatch):
    monkeypatch.setattr(leases, 'MAX', 2)
    addresses_of = [f'10.0.0.{number}' for number in range(1, 6)]
    for address in addresses_of:
        dhcpbridge.write(tmp_path, MAC, address, 2100000000)
    known = leases.Leases(tmp_path)
    reads = [[each['address'] for each in known.read([])] for _ in range(4)]
    assert reads == [addresses_of[:2], addresses_of[2:4], addresses_of[4:], []]
    dhcpbridge.write(tmp_path, MAC, '10.0.0.1', 2100000001)
    assert known.read([])[0] == {'mac': MAC, 'address': '10.0.0.1', 'expires_at': 2100000001}
    dhcpbridge.write(tmp_path, MAC, '10.0.0.1', 2100000002)       # after the pass over its name has begun
    assert [len(known.read([])) for _ in range(2)] == [2, 1]
    assert known.read([])[0]['expires_at'] == 2100000002


def test_file_of_a_lease_that_began_again_after_it_was_read_is_kept(tmp_path, monkeypatch):
    dhcpbridge.write(tmp_path, MAC, '10.0.0.5', 1)
    known, read = leases.Leases(tmp_path), leases.FORMAT.read_as

    def renewed(path, make):
        found = read(path, make)
        if found and found['expires_at'] == 1:
            monkeypatch.undo()
            dhcpbridge.write(tmp_path, MAC, '10.0.0.5', 2100000000)
        return found
    monkeypatch.setattr(type(leases.FORMAT), 'read_as', lambda self, path, make: renewed(path, make))
    assert [each['expires_at'] for each in known.read([])] == [1]
    assert [each['expires_at'] for each in known.read([])] == [2100000000]
    assert len(list(tmp_path.iterdir())) == 1


def main(directory, arguments, environ):
    with pytest.MonkeyPatch.context() as patch:
        for name in ('DNSMASQ_LEASE_EXPIRES', 'DNSMASQ_LEASE_LENGTH', 'DNSMASQ_MAC'):
            patch.delenv(name, raising=False)
        for name, value in {dhcpbridge.DIRECTORY: str(directory), **environ}.items():
            patch.setenv(name, value)
        return dhcpbridge.main(list(arguments))


def test_the_command_says_what_is_wrong(tmp_path):
    assert called(tmp_path, 'add', MAC, '../../etc/passwd').returncode == 2
    assert 'not an IP address' in called(tmp_path, 'add', MAC, '../x').stderr
    assert called(tmp_path, 'tftp', '17', '10.0.0.5').returncode == 0
    assert called(tmp_path, 'add', '../../x', '10.0.0.5').returncode == 0
    assert 'not set' in called('', 'add', MAC, '10.0.0.5').stderr and list(tmp_path.iterdir()) == []
    assert 'dhcp-script' in called(tmp_path, '--help').stdout
    wrong = called(tmp_path, '--unknown', 'add')
    assert (wrong.returncode, wrong.stderr) == (
        2, 'nova-dhcpbridge: unrecognized arguments: --unknown; see nova-dhcpbridge --help\n')


def test_a_renewed_lease_is_dnsmasqs_own(tmp_path):
    server = tmp_path / 'server'
    server.mkdir()
    (server / 'hosts').write_text(f'{MAC},10.0.0.5,set:x,one\n{MAC},[fd00::5],set:x,one\n')
    (server / 'leases').write_text(f'2100000000 {MAC} 10.0.0.5 one 01:{MAC}\n'
                                   '2100000000 fa:16:3e:00:00:99 10.0.0.6 * *\n'
                                   'duid 00:01:00:01\n2000000001 123 fd00::5 one 00:01\nnonsense\n')
    assert leases.Leases(tmp_path / 'files').read([server]) == [
        {'mac': MAC, 'address': '10.0.0.5', 'expires_at': 2100000000},
        {'mac': MAC, 'address': 'fd00::5', 'expires_at': 2000000001}]


class Driver:
    def __init__(self):
        self.found = []

    def leases(self, whole):
        return self.found


def test_lease_report_is_repeated_until_it_is_accepted():
    driver, told, errors = Driver(), [], [exception.Unavailable(reason='away')]

    def tell(rows):
        if errors:
            raise errors.pop()
        told.append(rows)
    report = reports.LeaseReports(driver, tell)
    driver.found = [{'mac': MAC, 'address': '10.0.0.5', 'expires_at': 2100000000}]
    report.report()
    driver.found = []
    report.report()
    assert told == [[{'mac': MAC, 'address': '10.0.0.5', 'expires_at': 2100000000}]]
    driver.found = told[0]
    report.report(whole=True)
    assert len(told) == 1


def test_two_reports_at_once_do_not_tell_the_same():
    driver, told, sending, go_on = Driver(), [], threading.Event(), threading.Event()

    def tell(rows):
        told.append(rows)
        sending.set()
        assert go_on.wait(10)
    report = reports.LeaseReports(driver, tell)
    driver.found = [{'mac': MAC, 'address': '10.0.0.5', 'expires_at': 2100000000}]
    with futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(report.report)
        assert sending.wait(10)
        second = pool.submit(report.report, whole=True)
        assert not futures.wait([second], 0.1).done
        go_on.set()
        first.result(10)
        second.result(10)
    assert told == [driver.found]


@pytest.fixture
def rig(tmp_path):
    return unit.Rig(tmp_path)


def record(rig, vif, until, host='host1', mac=None):
    address = vif['network']['subnets'][0]['ips'][0]['address']
    rig.methods['report_leases'](None, host=host, leases=[
        {'mac': mac or vif['address'], 'address': address, 'expires_at': int(until)}])
    return address


def test_operators_see_leases_and_an_address_is_free_after_its_lease(rig):
    instance = unit.make_instance()
    vif, = rig.allocate(instance)
    now = time.time()
    address = record(rig, vif, now + 600, host='other')
    record(rig, vif, now + 600, mac='fa:16:3e:99:99:99')
    with rig.db.reader() as conn:
        assert addresses.taken(conn)[0].expires_at is None, 'another host, another MAC'
    record(rig, vif, now + 600)
    with rig.db.reader() as conn:
        row, = addresses.taken(conn)
    assert abs(row.expires_at - utils.utcnow() - datetime.timedelta(seconds=600)) < datetime.timedelta(seconds=20)
    rig.manager.deallocate_for_instance(rig.context, instance_uuid=instance.uuid, host=None)

    def rests():
        rig.manager.sync()
        with rig.db.reader() as conn:
            return address in conn.execute(sa.select(t.addresses.c.address)).scalars().all()
    assert rests()
    with rig.db.writer() as conn:                              # the guest's host tells that the lease has ended
        conn.execute(sa.update(t.addresses).values(released_at=utils.utcnow() - datetime.timedelta(seconds=9)))
    record(rig, vif, time.time() - 3)
    assert not rests()


@pytest.mark.parametrize('given', [
    'x', [1], [{'mac': 'x', 'address': '10.0.0.5', 'expires_at': 1}],
    [{'mac': MAC, 'address': '10.0.0.5', 'expires_at': -1}],
    [{'mac': MAC, 'address': '10.0.0.5', 'expires_at': 1}] * 501])
def test_a_host_may_say_what_it_likes(rig, given):
    with pytest.raises(exception.InvalidInput):
        rig.methods['report_leases'](None, host='host1', leases=given)
