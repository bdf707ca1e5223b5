"""When a host may touch what it has of a server, by its own record and the server's row."""
import json

import pytest

from nova import differences
from nova import exception
from nova import objects
from nova import states
from nova.compute import differences as compare
from nova.compute import records

UUID, OTHER = 'a5f1c2de-0000-4000-8000-000000000001', 'a5f1c2de-0000-4000-8000-000000000002'
GUEST, FILES, SHARED, RESIZE_BACKUP, INCOMING = (
    records.GUEST, records.FILES, records.SHARED, records.RESIZE_BACKUP, records.INCOMING)
AT_2 = records.Record(2)
ELSEWHERE, DELETED = states.ELSEWHERE, states.DELETED_FOR_GOOD


@pytest.mark.parametrize('kind, record, state, generation, removable', [
    (GUEST, AT_2, ELSEWHERE, 3, True),              # it has moved away since
    (GUEST, AT_2, ELSEWHERE, 2, False),
    (GUEST, AT_2, ELSEWHERE, 1, False),             # a restored database
    (GUEST, AT_2, ELSEWHERE, None, False),          # a conductor of the release before
    (GUEST, None, ELSEWHERE, 9, False),             # it has arrived, and was not recorded
    (GUEST, None, DELETED, 9, True),
    (GUEST, AT_2, DELETED, 2, True),
    (GUEST, AT_2, DELETED, 1, False),
    (GUEST, AT_2, states.UNKNOWN, None, False),
    (GUEST, AT_2, states.NEEDED, 3, False),
    (GUEST, records.Record(2, disputed=True), ELSEWHERE, 9, False),
    (GUEST, records.Record(2, disputed=True), DELETED, 9, False),
    (RESIZE_BACKUP, records.Record(2, has_left=True), ELSEWHERE, 2, True),      # it left with that generation
    (RESIZE_BACKUP, records.Record(2, has_left=True), ELSEWHERE, 1, False),
    (RESIZE_BACKUP, None, ELSEWHERE, 1, True),
    (FILES, AT_2, ELSEWHERE, 1, False), (FILES, AT_2, ELSEWHERE, 3, True), (FILES, None, ELSEWHERE, 1, True),
    (SHARED, None, ELSEWHERE, 9, False), (SHARED, None, DELETED, 1, True), (SHARED, AT_2, DELETED, 1, False),
    (INCOMING, None, ELSEWHERE, 1, True), (INCOMING, None, states.NEEDED, 1, False),
])
def test_only_a_newer_row_removes(kind, record, state, generation, removable):
    assert records.is_removable(kind, record, records.Row(state, generation)) is removable


def server(generation=1, **values):
    return objects.Instance(**{'uuid': UUID, 'generation': generation, 'vm_state': states.ACTIVE, 'task_state': None,
                               **values})


@pytest.mark.parametrize('record, generation, request_id, event, refused', [
    (None, 1, 'r', 'e', False), (AT_2, 2, 'r', 'e', False), (AT_2, 3, 'r', 'e', False), (AT_2, 1, 'r', 'e', True),
    (records.Record(2, (('r', 'e'),)), 2, 'r', 'e', True),         # it was done before the database was restored
    (records.Record(2, (('r', 'e'),)), 2, 'r', 'f', False), (records.Record(2, (('r', 'e'),)), 2, None, 'e', False),
    (records.Record(2, disputed=True), 9, 'r', 'e', True),
])
def test_a_task_of_an_older_row_is_refused(record, generation, request_id, event, refused):
    assert bool(records.refusal(record, server(generation), request_id, event)) is refused


@pytest.mark.parametrize('record, reason', [
    (records.Record(2), None),
    (records.Record(3), 'the database has generation 2 of the server, and the record of this host has 3'),
    (records.Record(2, disputed=True), 'the database has generation 2 of the server, and the record of this host has '
                                       '2; the host has seen an older row before')])
def test_a_refusal_names_the_generations_and_the_dispute(record, reason):
    """With a disputed record the generations may be equal, which explains nothing."""
    assert records.refusal(record, server(2), 'r', 'e') == reason


def known(tmp_path, *recorded, complete=True):
    made = records.Records(str(tmp_path), 'host1')
    for each in recorded:
        made.note(each)
    if complete:
        made.finish()
    return made


RUNS = {UUID: states.RUNNING}


@pytest.mark.parametrize('guests, mine, rows, recorded, complete, kind', [
    (RUNS, {UUID: server(2)}, {}, [server(2)], True, None),
    (RUNS, {UUID: server(1)}, {}, [server(2)], True, differences.NEWER),
    (RUNS, {}, {UUID: records.Row(ELSEWHERE, 1)}, [server(2)], True, differences.NEWER),
    (RUNS, {}, {UUID: records.Row(ELSEWHERE, 3)}, [server(2)], True, None),
    (RUNS, {}, {UUID: records.Row(states.NEEDED, 1)}, [server(2)], True, differences.NEWER),
    (RUNS, {}, {UUID: records.Row(states.UNKNOWN)}, [server(2)], True, differences.UNKNOWN),
    (RUNS, {}, {UUID: records.Row(states.UNKNOWN)}, [], True, None),             # a guest of another program
    ({}, {UUID: server(1)}, {}, [], True, differences.ABSENT),
    ({}, {UUID: server(1)}, {}, [], False, None),                  # before the first look after an upgrade
    ({}, {UUID: server(1, vm_state=states.BUILDING)}, {}, [], True, None),
    ({}, {UUID: server(1, task_state=states.REBUILDING)}, {}, [], True, None),
    ({}, {UUID: server(1)}, {}, [server(1)], True, None),          # its guest is off, and libvirt has forgotten it
])
def test_comparison_reports_the_kind_of_difference(tmp_path, guests, mine, rows, recorded, complete, kind):
    found = compare.compare(guests, mine, rows, known(tmp_path, *recorded, complete=complete))
    assert found == ({} if kind is None else {UUID: kind})


def test_a_guest_that_left_by_a_newer_move_is_absent(tmp_path):
    made = known(tmp_path, server(1))
    made.note_left(UUID, 2)
    assert compare.compare({}, {UUID: server(1)}, {}, made) == {UUID: differences.ABSENT}
    assert compare.compare({}, {UUID: server(3)}, {}, made) == {}


def test_records_outlive_the_process_and_only_their_owner_reads_them(tmp_path):
    made = known(tmp_path, server(7))
    made.note(server(7), 'r', 'e', vm_state=states.STOPPED)
    made.dispute(UUID)
    again = records.Records(str(tmp_path), 'host1')
    assert again.get(UUID) == records.Record(7, (('r', 'e'),), disputed=True) and again.complete
    assert again.server(UUID)['vm_state'] == states.STOPPED
    path = tmp_path / 'host1' / f'{UUID}.json'
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text('{')
    assert records.Records(str(tmp_path), 'host1').get(UUID) is None
    again.forget(UUID)
    assert not path.exists()


def test_a_record_that_a_newer_release_has_extended_is_read(tmp_path):
    known(tmp_path, server(7))
    path = tmp_path / 'host1' / f'{UUID}.json'
    path.write_text(json.dumps({**json.loads(path.read_text()), 'newer': 1}))
    assert records.Records(str(tmp_path), 'host1').get(UUID) == records.Record(7)


def test_a_full_disk_stops_no_task(tmp_path, caplog):
    made = known(tmp_path, server(1))
    (tmp_path / 'host1').rename(tmp_path / 'aside')
    (tmp_path / 'host1').write_text('no directory can be made here')
    made.note(server(2))
    assert made.get(UUID).generation == 2 and 'Cannot write' in caplog.text


def test_guests_of_a_host_that_is_renamed_are_found(tmp_path):
    known(tmp_path, server(1))
    (tmp_path / 'a note').write_text('not the directory of a host')
    renamed = records.Records(str(tmp_path), 'host1b')
    renamed.check_name('host1b', [OTHER])                          # guests of others are no matter
    with pytest.raises(exception.InvalidInput) as refused:
        renamed.check_name('host1b', [UUID])
    assert 'Set host = host1 again' in str(refused.value)
    records.Records(str(tmp_path), 'host1').check_name('host1', [UUID])


@pytest.mark.parametrize('recorded, power_state, vm_state', [
    (states.ACTIVE, states.RUNNING, states.ACTIVE), (states.BUILDING, states.RUNNING, states.ACTIVE),
    (states.RESCUED, states.RUNNING, states.RESCUED), (states.STOPPED, states.RUNNING, states.ACTIVE),
    (states.ACTIVE, states.SHUTDOWN, states.STOPPED), (states.RESIZED, states.SHUTDOWN, states.RESIZED),
    (None, states.POWER_PAUSED, states.PAUSED), (None, states.NOSTATE, states.ERROR)])
def test_the_state_of_a_server_follows_its_guest(recorded, power_state, vm_state):
    assert differences.vm_state_of(recorded, power_state) == vm_state


def test_difference_of_volumes_names_missing_and_unexpected_ones():
    assert differences.of_volumes({'a': 1, 'b': 1}, {'b': 1, 'c': 1}) == (['a'], ['c'])
    assert differences.of_volumes({}, {}) == ([], [])


@pytest.mark.parametrize('kind, guests, sentence', [
    (differences.NEWER, 1, 'of the row are set from the guest'), (differences.NEWER, 2, 'Not settled'),
    (differences.UNKNOWN, 2, 'Not settled'), (differences.ABSENT, 2, 'ERROR')])
def test_each_kind_of_difference_has_a_settlement_sentence(kind, guests, sentence):
    assert sentence in differences.settlement(kind, guests)
