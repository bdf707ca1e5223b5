"""Fence of a dead host: what is shut out, what stops an evacuation, and what a host records for it; no Ceph is needed.

With one: integration/test_ceph_disks.py and tools/proofs/fencing.py.
"""
import contextlib
import dataclasses
import json

import pytest

pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova import exception
from nova.objects import disk_clients as records
from nova.virt import driver
from nova.virt.libvirt import disk_clients
from nova.virt.libvirt.local_disks import storage
from nova.virt.libvirt import xml
from nova.virt.libvirt.local_disks import pool
from nova.virt.libvirt.local_disks import rbd
from nova.virt.libvirt.moves import fencing
from nova.virt.libvirt.domain import volume_disks as disk

UUID = '6b1d4dc4-6a3f-4a43-9a66-3c1ad1f0a001'
A, B, C = '10.0.0.1:0/11', '10.0.0.1:0/22', '[fd00::1]:0/33'
OWN = '127.0.0.1:0/9'                    # of this host
ROOT, DATA = 'vms/root', 'volumes/data'
DISK = fencing.Part('its disk', fencing.CEPH, ROOT)
VOLUME = fencing.Part('volume 1', fencing.CEPH, DATA, volume=True)
SHARED = fencing.Part('volume 2', fencing.CEPH, DATA, shared=True, seen=frozenset({A, B}), volume=True)
EXPORT = fencing.Part('volume 3', fencing.CLOSED, volume=True)
ISCSI = fencing.Part('volume 4', 'no fence closes volumes of kind iscsi', volume=True)
BLIND = fencing.Part('volume 5', fencing.CEPH, DATA, problem='Operation not permitted', volume=True)


def seen(part, *addresses):
    return dataclasses.replace(part, seen=frozenset(addresses))


@pytest.mark.parametrize(('parts', 'recorded', 'off', 'addresses', 'unfenced'), [
    # nothing is shared with the dead host
    ([], None, False, [], []),
    # its clients are those that it has recorded, and those that Ceph knows of
    ([DISK], {ROOT: [A]}, False, [A], []),
    ([seen(DISK, B)], {ROOT: [A]}, False, [A, B], []),
    ([DISK, VOLUME], {ROOT: [A], DATA: [B]}, False, [A, B], []),
    # a client that was cut off has no watch, and no lock of what it never wrote: without a record nobody knows it
    ([DISK], None, False, [], ['its disk']),
    ([seen(DISK, A)], None, False, [A], ['its disk']),
    ([DISK], {ROOT: None}, False, [], ['its disk']),
    ([VOLUME], {ROOT: [A]}, False, [A], ['volume 1']),
    # an image that Ceph has of the server, and that the guest has not opened
    ([DISK, fencing.Part('left', fencing.CEPH, 'vms/left')], {ROOT: [A]}, False, [A], []),
    # what the guest had open and the server has no more
    ([DISK], {ROOT: [A], DATA: [B]}, False, [A, B], []),
    ([DISK], {ROOT: [A], DATA: None}, False, [A], [f'image {DATA}']),
    # another server has the volume open, too: its client goes on
    ([SHARED], {DATA: [A]}, False, [A], []),
    ([SHARED], {DATA: None}, False, [], ['volume 2']),
    ([SHARED], None, False, [], ['volume 2']),
    # the block storage closes the export
    ([EXPORT], None, False, [], []),
    # nothing closes it
    ([ISCSI], {}, False, [], ['volume 4']),
    ([BLIND], {DATA: [A]}, False, [A], ['volume 5']),
    ([DISK, BLIND, ISCSI], None, False, [], ['its disk', 'volume 4', 'volume 5']),
    # it was switched off, and has nothing open; Ceph has to answer all the same
    ([DISK, VOLUME, SHARED, ISCSI], None, True, [], []),
    ([seen(DISK, A)], None, True, [A], []),
    ([BLIND], None, True, [], ['volume 5']),
    # shut out by an evacuation whose destination died before it ran the guest
    ([DISK, VOLUME], {}, False, [], []),
])
def test_fencing_decision_follows_the_recorded_parts(parts, recorded, off, addresses, unfenced):
    found = fencing.decide(parts, recorded, off)
    assert list(found.addresses) == addresses and [name for name, _reason in found.unfenced] == unfenced


@pytest.fixture
def answer(tmp_path, monkeypatch):
    """Programs rbd and ceph that print these lines, one a call, and fail with "Operation not permitted" then."""
    def say(*lines):
        (tmp_path / 'lines').write_text(''.join(f'{json.dumps(line)}\n' for line in lines))
        for program in ('rbd', 'ceph'):
            (tmp_path / program).write_text(
                f'#!/bin/sh\ncd {tmp_path}\nline=$(sed -n 1p lines)\nsed -i 1d lines\n'
                'case $line in ""|null) echo "rbd: (1) Operation not permitted" >&2; exit 1;; esac\n'
                'printf "%s\\n" "$line"\n')
            (tmp_path / program).chmod(0o755)
        monkeypatch.setenv('PATH', str(tmp_path), prepend=':')
        return pool.Pool('vms', '/nonexistent/ceph.conf', 'nova', 60)
    return say


def former(accepts=False, devices=()):
    return driver.FormerHost('dead', False, list(devices), {ROOT: [A]}, accepts)


def stored(tmp_path, ceph):
    place = rbd.Rbd(ceph, None, 'here', None, 'writeback', 60)
    return storage.Storage(str(tmp_path), None, None, host='here', disks=place)


NAME = f'{UUID}_disk'
LOOKS = [NAME], [], {'watchers': [{'address': A}]}       # ls, lock ls, status


@pytest.mark.parametrize('lines', [(), LOOKS[:1], LOOKS[:2], LOOKS])
def test_an_evacuation_stops_with_a_sentence_where_a_fence_fails(tmp_path, answer, lines):
    """No list of the pool, no look at the locks, none at the watches, no right to shut a client out."""
    ceph = answer(*lines)
    with pytest.raises(exception.NotFenced) as caught:
        fencing.fence(stored(tmp_path, ceph), ceph, UUID, former())
    text = caught.value.message
    assert 'Operation not permitted' in text and 'two-writers' in text and len(text) <= 255


@pytest.mark.parametrize('lines', [(), LOOKS])
def test_an_operator_overrides_by_naming_the_risk(tmp_path, answer, lines):
    ceph = answer(*lines)
    assert fencing.fence(stored(tmp_path, ceph), ceph, UUID, former(accepts=True)) is False


def test_fence_succeeds_when_all_clients_are_blocklisted(tmp_path, answer):
    ceph = answer(*LOOKS, 'blocklisted')
    assert fencing.fence(stored(tmp_path, ceph), ceph, UUID, former()) is True


def test_a_volume_of_another_ceph_is_not_fenced_by_this_one(answer):
    monitors = {'mons': [{'public_addrs': {'addrvec': [{'type': 'v1', 'addr': '10.0.0.9:6789', 'nonce': 0}]}}]}
    device = volume('rbd', name=DATA, hosts=['10.0.0.8'], ports=['6789'])
    assert 'not in the Ceph cluster' in fencing._of_volume(answer(monitors), device).problem
    device = volume('rbd', name=DATA, hosts=['10.0.0.9'], ports=['6789'])
    assert fencing._of_volume(answer(monitors, *LOOKS[1:]), device).seen == {A}
    assert 'not permitted' in fencing._of_volume(answer(), device).problem           # its monitors do not answer


def volume(kind, **data):
    return {'destination_type': 'volume', 'volume_id': '1', 'attachment_id': 'a',
            'connection_info': {'driver_volume_type': kind, 'data': data}}


@pytest.mark.parametrize(('device', 'kind'), [
    (volume('nbd', export='a', host='h', port=1, tls=True), fencing.CLOSED),
    # an export of which nobody says that it ends with the attachment
    (volume('nbd', export='b', host='h', port=1, tls=True), None),
    (volume('nbd', export='a', socket='/run/s'), None),
    (volume('local', device_path='/v'), None), (volume('iscsi'), None), (volume('nfs'), None),
    ({**volume('rbd'), 'connection_info': None}, None)])
def test_volumes_that_no_fence_closes_count_as_not_fenced(answer, device, kind):
    part = fencing._of_volume(answer(), device)
    if kind is None:
        assert [part.name] == [name for name, _why in fencing.decide([part], {}, False).unfenced]
    else:
        assert part.kind == kind


@pytest.mark.parametrize(('before', 'after', 'own', 'found'), [
    ((), (A,), {A}, [A]), ((A,), (A, B), {A, B}, [B]), ((A,), (A,), {A}, None), ((), (A, C), {A}, [A]),
    (None, (A,), {A}, None), ((), None, {A}, None)])
def test_new_clients_of_a_shared_image_exclude_own_and_earlier_ones(before, after, own, found):
    before, after = (None if each is None else frozenset(each) for each in (before, after))
    assert disk_clients.new_clients(before, after, own.__contains__) == found


def test_an_address_is_of_this_host():
    assert disk_clients.is_local('127.0.0.1:0/5') and not disk_clients.is_local('192.0.2.77:0/5')


def image(name, **values):
    return disk.Volume('v', 'vdb', 'virtio', {'type': 'network', 'protocol': 'rbd', 'name': name}, **values)


def made_guest(disks):
    return xml.Guest.of({'uuid': UUID, 'name': 'a', 'owner': '/o', 'virt_type': 'qemu', 'vcpus': 1, 'memory_mb': 64,
                         'console_log': '/log', 'disks': disks})


def test_images_are_those_that_a_guest_may_write_to():
    local = [xml.Disk('/d', 'raw', 'vda', source={'protocol': 'rbd', 'name': ROOT}),
             xml.Disk('/c', 'raw', 'vdz', source={'protocol': 'rbd', 'name': 'vms/config'}, readonly=True),
             xml.Disk('/f', 'raw', 'vdy')]
    guest = made_guest(local)
    guest.volumes = [image(DATA), image('volumes/many', shareable=True), image('volumes/read', readonly=True)]
    assert disk_clients.images_of(guest) == {ROOT: False, DATA: False, 'volumes/many': True}


def watched(*addresses):
    return {'watchers': [{'address': address} for address in addresses]}


@pytest.mark.parametrize(('volume', 'answers', 'records'), [
    (image(DATA), [watched(A)], [({DATA: None}, False), ({DATA: [A]}, False)]),
    (image(DATA), [], [({DATA: None}, False), ({DATA: None}, False)]),
    (image(DATA, shareable=True), [watched(B), watched(B, OWN)], [({DATA: None}, False), ({DATA: [OWN]}, False)]),
    (image(DATA, readonly=True), [], [])])
def test_a_volume_counts_as_unknown_until_its_client_is_recorded(answer, volume, answers, records):
    clients, made = disk_clients.DiskClients(answer(*answers)), []
    clients.record = lambda _uuid, images, started: made.append((images, started))
    with clients.plugging(UUID, volume):
        assert len(made) == bool(records)
    assert made == records


def test_a_start_that_fails_records_nothing(answer):
    clients, made = disk_clients.DiskClients(answer()), []
    clients.record = lambda *arguments: made.append(arguments)
    guest = made_guest([])
    guest.volumes = [image(DATA)]
    with contextlib.suppress(ValueError), clients.starting(guest):
        raise ValueError
    assert made == []


RECORD = {'host': 'h', 'images': {ROOT: [A, C], DATA: None}, 'fenced': None}


@pytest.mark.parametrize('wrong', [
    None, {}, {**RECORD, 'more': 1}, {**RECORD, 'host': 1}, {**RECORD, 'images': []}, {**RECORD, 'fenced': 5},
    {**RECORD, 'images': {'noslash': [A]}}, {**RECORD, 'images': {ROOT: A}}, {**RECORD, 'images': {ROOT: [5]}},
    {**RECORD, 'images': {ROOT: ['10.0.0.0/8']}}, {**RECORD, 'images': {ROOT: ['10.0.0.1:6800/5']}},
    {**RECORD, 'images': {f'p/{number}': [A] for number in range(records.MAX_IMAGES + 1)}},
    {**RECORD, 'images': {ROOT: [A] * (records.MAX_ADDRESSES + 1)}}])
def test_a_record_names_clients_alone_and_is_bounded(wrong):
    assert not records.is_record(wrong) and records.read({records.KEY: wrong}) is None


def test_a_record_is_of_one_host():
    assert records.is_record(RECORD)
    found = records.read({records.KEY: RECORD})
    assert found.clients_of('h') == RECORD['images'] and found.clients_of('other') is None
    assert found.values() == RECORD
    shut_out = records.read({records.KEY: {**RECORD, 'fenced': 'h'}})
    assert shut_out.clients_of('other') == {}
