"""Every record on a disk: its round trip, and a damaged record affects only what it describes."""
import dataclasses
import json
import pathlib
import time

import pytest

pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova import exception
from nova import objects
from nova import states
from nova import utils
from nova.compute import records as server_records
from nova.network.linux import dhcpbridge
from nova.network.linux import leases
from nova.rpc import replays
from nova.runtime import disk_space
from nova.runtime import versioned_records
from nova.tests.older_release import records
from nova.tests.support import libvirt_moves as moves
from nova.virt import virtiofsd
from nova.virt.fake import machine
from nova.virt.libvirt import spec
from nova.virt.libvirt.features import shares
from nova.virt.libvirt.local_disks import owners
from nova.virt.libvirt.moves import post_copy
from nova.virt.libvirt.moves import shared_storage
from nova.virt.libvirt.moves import transfer_progress
from nova.volume.exports import daemon
from nova.volume.exports import exporter

FORMATS = records.formats()
GOOD, BAD = moves.UUID, moves.OTHER
SHARE = 'share.3f5c2f0e-5b0c-4f4e-8b5a-0d0e6f5d3c01'


def sample(made):
    """A record with all fields of its format."""
    return {name: {'field': name} for name in sorted(made.fields or {'an id', 'another id'})}


@pytest.mark.parametrize('name', sorted(FORMATS))
def test_a_record_is_written_and_read(name, tmp_path):
    made, path = FORMATS[name], tmp_path / 'record'
    made.write(path, sample(made))
    assert made.read(path) == sample(made) and path.stat().st_mode & 0o777 == made.mode
    header = {key: json.loads(path.read_text())[key] for key in ('version', 'readable_by')}
    assert header == {'version': made.version, 'readable_by': made.readable_by}


@pytest.mark.parametrize('name', sorted(FORMATS))
def test_an_unknown_field_survives_a_read_and_a_write(name, tmp_path):
    made, path = FORMATS[name], tmp_path / 'record'
    newer = {**sample(made), 'of_a_newer_release': {'any': ['thing']}, 'version': made.version + 1,
             'readable_by': made.version}
    path.write_text(json.dumps(newer))
    made.write(path, made.read(path))
    assert json.loads(path.read_text()) == {**newer, 'version': made.version, 'readable_by': made.readable_by}


@pytest.mark.parametrize('name', sorted(FORMATS))
def test_every_version_that_was_ever_frozen_is_read_or_refused_by_a_sentence(name, tmp_path):
    made, path = FORMATS[name], tmp_path / 'record'
    for version, row in records.frozen()[name].items():
        values = {field: {'field': field} for field in row['fields'] or ('an id',)}
        path.write_text(json.dumps({**values, 'version': int(version), 'readable_by': row['readable_by']}))
        if int(version) >= made.oldest:
            assert made.required <= made.read(path).keys()
        else:
            with pytest.raises(exception.RecordUnreadable, match=f'an older release wrote it in version {version}'):
                made.read(path)


@pytest.mark.parametrize('name', sorted(FORMATS))
def test_a_record_that_needs_a_newer_release_is_refused_by_a_sentence(name, tmp_path):
    made, path = FORMATS[name], tmp_path / 'record'
    needed = made.version + 1
    path.write_text(json.dumps({**sample(made), 'version': needed, 'readable_by': needed}))
    with pytest.raises(exception.RecordUnreadable) as caught:
        made.read(path)
    assert caught.value.message == (
        f'The {name} {path} cannot be read: a newer release wrote it in version {needed}, which needs version {needed} '
        f'or later, and this release reads {made.readable}. Upgrade this service.')


# ---- a record that cannot be read, beside one that can

def guest(directory, content):
    stored = moves.store(directory / 'instances', 'one')
    for uuid in (GOOD, BAD):
        (directory / 'instances' / uuid).mkdir()
        stored.save(dataclasses.replace(moves.record(stored), uuid=uuid))
    (directory / 'instances' / BAD / 'guest.json').write_bytes(content)
    assert [each.uuid for each in stored.records()] == [GOOD]
    with pytest.raises(exception.VirtError, match='read the record of the guest'):
        stored.load(BAD)
    assert shared_storage.leftovers(stored, 'one', ()) == {GOOD: True, BAD: False}


class Pool:
    """Records in a pool."""

    def __init__(self, content):
        # of version 1, in which ``before`` is the previous host
        self.texts = {GOOD: json.dumps({'host': 'one', 'before': None, 'successor': None, 'guest': {'disks': []},
                                        'of_a_newer_release': 1}), BAD: content.decode(errors='replace')}

    def note(self, uuid):
        return self.texts.get(uuid)

    def put_note(self, uuid, text):
        self.texts[uuid] = text


def pool_record(directory, content):
    pool = Pool(content)
    of_pool = owners.Owners(pool, 'one')
    of_pool.promise(GOOD, 'two')
    written = json.loads(pool.texts[GOOD])
    assert (written['successor'], written['of_a_newer_release'], written['previous_host']) == ('two', 1, None)
    assert written.keys() == {*owners.FORMAT.fields, 'version', 'readable_by', 'of_a_newer_release'}
    record = owners.PoolRecord('one', 'two', None, {'disks': []}, {'of_a_newer_release': 1})
    assert utils.from_known(owners.PoolRecord, utils.to_record(record)) == record
    with pytest.raises(exception.VirtError, match='find the owner of the disks'):
        of_pool.read(BAD)


def arrival(directory, content):
    stored = moves.store(directory / 'instances', 'one')
    for uuid in (GOOD, BAD):
        (directory / 'instances' / uuid).mkdir()
        transfer_progress.IncomingTransfer(stored.path(uuid), {'of': uuid}, 'one').begin()
    path = directory / 'instances' / GOOD / 'transfer.json'
    path.write_text(json.dumps({**json.loads(path.read_text()), 'of_a_newer_release': 1}))
    (directory / 'instances' / BAD / 'transfer.json').write_bytes(content)
    found = transfer_progress.IncomingTransfer.interrupted(stored.path(GOOD), {'of': GOOD}, 'one')
    found.note('disk', transfer_progress.FileVersion(1, 'now'), 1)
    assert json.loads(path.read_text())['of_a_newer_release'] == 1
    assert transfer_progress.IncomingTransfer.interrupted(stored.path(BAD), {'of': BAD}, 'one') is None
    assert shared_storage.leftovers(stored, 'one', ()) == {GOOD: True, BAD: False}


def post_copy_call(directory, content):
    stored = moves.store(directory / 'instances', 'one')
    calls = post_copy.PostCopy(None, stored, 'one')
    call = post_copy.Call('qemu:///session', {}, post_copy.libvirt.VIR_MIGRATE_POSTCOPY)
    for uuid in (GOOD, BAD):
        (directory / 'instances' / uuid).mkdir()
        calls.keep(uuid, call)
    (directory / 'instances' / BAD / 'post-copy.one.json').write_bytes(content)
    assert calls.kept(GOOD) == call and calls.kept(BAD) is None


def machine_of_a_guest(directory, content):
    for uuid in (GOOD, BAD):
        spec.MACHINE_FORMAT.write(directory / uuid, {'arch': None, 'settings': {}})
    (directory / BAD).write_bytes(content)
    assert spec.MACHINE_FORMAT.read(directory / GOOD) == {'arch': None, 'settings': {}}
    with pytest.raises(exception.RecordUnreadable):
        spec.MACHINE_FORMAT.read(directory / BAD)


def share(directory, content):
    for name in (GOOD, BAD):
        shares.FORMAT.write(directory / f'{name}.json', {'protocol': 'NFS', 'export_location': 'h:/a', 'user': None})
    (directory / f'{BAD}.json').write_bytes(content)
    assert virtiofsd.described(str(directory / GOOD)) == ('NFS', 'h:/a', None)
    if content == NEWER:
        with pytest.raises(ValueError, match='needs version 99 of its format, and this program reads version 1'):
            virtiofsd.described(str(directory / BAD))
    else:
        with pytest.raises(ValueError):
            virtiofsd.exports.check(*virtiofsd.described(str(directory / BAD))[:2])


def export(directory, content):
    made = exporter.Exporter(str(directory), '127.0.0.1', 1, lambda: '', lambda _attachment: [])
    for name in (GOOD, BAD):
        daemon.Daemon(str(directory / name)).create(name, 1)
    (directory / BAD / 'host.json').write_bytes(content)
    assert made._hosts() == {GOOD}
    with pytest.raises(exception.InvalidVolume, match='record of an exporter'):
        daemon.Daemon(str(directory / BAD)).record()


def server(directory, content):
    path = directory / 'host1'
    path.mkdir()
    values = {'generation': 1, 'completed_tasks': [['r', 'e']], 'has_left': False, 'disputed': False,
              'server': {'uuid': GOOD},
              'of_a_newer_release': 1}
    (path / f'{GOOD}.json').write_text(json.dumps(values))
    (path / f'{BAD}.json').write_bytes(content)
    made = server_records.Records(str(directory), 'host1')
    assert made.get(GOOD) == server_records.Record(1, (('r', 'e'),)) and made.uuids() == [GOOD]
    assert made.get(BAD) is None and made.server(BAD) == {} and made.server(GOOD) == {'uuid': GOOD}
    deleted = server_records.Row(states.DELETED_FOR_GOOD, 9)
    assert made.allows_removal(server_records.FILES, GOOD, deleted)
    assert not made.allows_removal(server_records.FILES, BAD, deleted)
    made.forget(BAD)
    assert not (path / f'{BAD}.json').exists() and made.allows_removal(server_records.FILES, BAD, deleted)
    (path / f'{BAD}.json').write_bytes(content)
    made = server_records.Records(str(directory), 'host1')
    made._put(BAD, server_records.Record(3, ()))
    assert (path / f'{BAD}.json.unreadable').read_bytes() == content
    assert made.allows_removal(server_records.FILES, BAD, deleted)
    made.note_left(GOOD, 2)
    written = json.loads((path / f'{GOOD}.json').read_text())
    assert (written['generation'], written['has_left'], written['of_a_newer_release'], written['server']) == (
        2, True, 1, {'uuid': GOOD})


def floors(directory, content):
    key, number = 'ab' * 20, 'cd' * 12
    path = str(directory / 'replays')
    replays.FLOORS.write(path + '.floors', {key: 100})
    with pytest.raises(exception.MessageRefused):
        replays.Replays(path, 60).check(key, number, 100)
    pathlib.Path(path + '.floors').write_bytes(content)
    made = replays.Replays(path, 60)
    made.check(key, number, 101)
    with pytest.raises(exception.MessageRepeated):
        made.check(key, number, 101)


def claim(directory, content):
    reserve = disk_space.Reserve(1, str(directory / 'ledger'))
    with reserve.claimed(str(directory), 1000, str(directory / 'a')), \
            reserve.claimed(str(directory), 1000, str(directory / 'b')) as other:
        pathlib.Path(other._path).write_bytes(content)
        assert reserve._claimed(directory.stat().st_dev, None) == 1000


def lease(directory, content):
    dhcpbridge.write(directory, 'fa:16:3e:00:00:01', '10.0.0.5', end := int(time.time()) + 60)
    (directory / 'bad').write_bytes(content)
    assert leases.Leases(directory).read([]) == [{'mac': 'fa:16:3e:00:00:01', 'address': '10.0.0.5', 'expires_at': end}]


def simulated(directory, content):
    try:
        bad = json.loads(content)
    except ValueError:
        bad = None
    good = {'console': [], 'power_state': 1, 'of_a_newer_release': 1}
    (directory / 'host1.json').write_text(json.dumps({GOOD: good, BAD: bad}))
    made = machine.Machine('host1', str(directory), {}, {})
    made.load()
    assert list(made.guests) == [GOOD]
    made.guests[GOOD]['power_state'] = 4
    made.save()
    written = json.loads((directory / 'host1.json').read_text())
    assert written == {BAD: bad, GOOD: {**good, 'power_state': 4, 'version': 1, 'readable_by': 1}}


def simulated_arrival(directory, content):
    for text in (json.dumps([GOOD]), json.dumps({GOOD: {}})):
        (directory / 'host1.incoming').write_text(text)
        made = machine.Machine('host1', str(directory), {}, {})
        made.load()
        assert made.incoming == {GOOD}
    (directory / 'host1.incoming').write_bytes(content)
    made.load()
    made.set_incoming(GOOD, True)
    assert GOOD in json.loads((directory / 'host1.incoming').read_text())


NEWER = b'{"version": 99, "readable_by": 99}'
DAMAGED = {'empty': b'', 'torn': b'{"version": 1, "uuid": "', 'garbage': b'\x00\xff' * 100, 'list': b'[1, 2]',
           'fields': b'{"any": "thing"}', 'newer': NEWER}
ENTITIES = {
    'record of a guest': guest,
    'record of the owner of disks in the pool': pool_record,
    'record of the transfer of an incoming guest': arrival,
    'record of a migration with post-copy': post_copy_call,
    'record of a machine': machine_of_a_guest,
    'record of a share': share,
    'record of an exporter': export,
    'record of a server': server,
    'record of the latest times of dropped message numbers': floors,
    'claim of disk space': claim,
    'record of a lease': lease,
    'record of a simulated guest': simulated,
    'record of an incoming simulated guest': simulated_arrival,
}


def test_every_format_has_a_test_of_a_damaged_record():
    assert ENTITIES.keys() == FORMATS.keys()


@pytest.mark.parametrize('damage', DAMAGED)
@pytest.mark.parametrize('name', sorted(ENTITIES))
def test_a_damaged_record_affects_what_it_describes_only(name, damage, tmp_path):
    ENTITIES[name](tmp_path, DAMAGED[damage])


def test_a_record_of_any_size_is_refused_without_being_read(tmp_path):
    path = tmp_path / 'record'
    with open(path, 'wb') as file:
        file.truncate(1 << 40)
    for made in FORMATS.values():
        with pytest.raises(exception.RecordUnreadable, match=f'it has more than {versioned_records.MAX_BYTES} bytes'):
            made.read(path)


def test_a_simulated_guest_has_no_field_that_its_format_lacks(tmp_path):
    made = machine.Machine('host1', str(tmp_path), {}, {})
    instance = objects.Instance(uuid=GOOD, vcpus=1, memory_mb=1, root_gb=1, ephemeral_gb=0, numa_topology=None,
                                hostname='a', pci_devices=[])
    made.put(instance, 1, [], 'booted')
    made.give_tpm(instance, False)
    made.keep_volumes(instance, [])
    assert made.guests[GOOD].keys() - {'version', 'readable_by'} <= machine.FORMAT.fields
