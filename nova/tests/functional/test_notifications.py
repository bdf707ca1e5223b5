"""What is told, by whom and of what: a walk through a whole cloud against the samples of the documentation."""
import collections
import json
import threading

import pytest
import sqlalchemy as sa

from nova import actions
from nova import notify
from nova.notify import events
from nova.tests.functional import notifications


@pytest.fixture(scope='module')
def in_cell():
    """[statement on the API database while the same thread has a write transaction of a cell]."""
    return []


def watch(cloud, found):
    writing = threading.local()

    def note(open_now):
        def change(_conn):
            writing.now = open_now
        return change

    def look(_conn, _cursor, statement, *_more):
        if getattr(writing, 'now', False):
            found.append(statement)
    for name, open_now in (('begin', True), ('commit', False), ('rollback', False)):
        sa.event.listen(cloud.cell_db.engine, name, note(open_now))
    for engine in {cloud.api_db.engine, cloud.api_db._reading}:
        sa.event.listen(engine, 'before_cursor_execute', look)


@pytest.fixture(scope='module')
def walk(tmp_path_factory, in_cell):
    patch = pytest.MonkeyPatch()
    cloud = notifications.start(tmp_path_factory.mktemp('notifications') / 'state')
    watch(cloud, in_cell)
    try:
        made = notifications.Walk(cloud, patch.setattr)
        made.all()
        cloud_notifier = made.conductor.services.notifier
        made.until(lambda: not cloud_notifier.waiting)
        yield made
    finally:
        cloud.stop(5)
        patch.undo()


@pytest.fixture(scope='module')
def samples(walk):
    return notifications.samples()


def shape(value):
    """The structure of a document: names, and the kinds of what they name."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted({json.dumps(shape(each), sort_keys=True) for each in value})
    return 'number' if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__


def test_every_row_is_told(samples):
    assert set(samples) == notifications.paths()


@pytest.mark.parametrize('name', sorted(str(path.relative_to(notifications.SAMPLES)) for path in notifications.paths()))
def test_fields_are_those_of_the_sample(samples, name):
    path = notifications.SAMPLES / name
    written, told = json.loads(path.read_text()), samples[path]
    if 'live_migration_abort' in name or 'force_complete' in name:        # the migration ends meanwhile, or has
        for document in (written, told):
            document['payload']['nova_object.data']['task_state'] = None
    if name.startswith('unversioned/') and ('abort' in name or 'force-complete' in name):    # '' until it has one
        for document in (written, told):
            document['payload']['progress'] = None
    assert shape(told) == shape(written), 'run: python -m nova.tests.functional.notifications'
    assert (told['event_type'], told['priority']) == (written['event_type'], written['priority'])
    assert told['publisher_id'].rstrip('123') == written['publisher_id'].rstrip('123')


def test_no_sample_is_of_nothing():
    assert set(notifications.SAMPLES.rglob('*.json')) == notifications.paths()


def test_no_notification_failed_or_was_dropped(walk):
    counts = walk.conductor.services.notifier.counts
    assert counts['failed'] == counts['dropped'] == 0 and counts['sent'] > 200


def test_no_event_asks_the_api_database_within_a_transaction_of_a_cell(walk, in_cell):
    """Its locks were held until the other database had answered. The end of an attachment alone asks: the groups of the
    server's ports as they are once it holds the row.
    """
    assert {statement for statement in in_cell if 'port_security_groups' not in statement} == set()


def test_no_secret_is_told(walk):
    text = json.dumps(notifications.told())
    assert walk.boss.token not in text
    for secret in (*notifications.SECRETS, 'PRIVATE KEY', 'connection_info', 'auth_token'):
        assert secret not in text


def test_every_start_notification_has_an_end_or_error(walk):
    """Of every event as many ends and errors as beginnings, in both forms."""
    told = collections.Counter(message['event_type'] for _context, message, _priority in notifications.told())
    for row in events.ROWS:
        if set(row.phases) >= set(events.PAIR) and row.name != 'instance.shutdown':
            errors = told[f'{row.name}.error']
            # a host that fails tells its error; only some events have a phase for that
            if row.name not in ('instance.resize',):
                assert told[f'{row.name}.start'] == told[f'{row.name}.end'] + errors, row.name


def test_notifications_name_the_requesting_user(walk):
    for context, message, _priority in notifications.told():
        if message['event_type'] == 'instance.power_off.end':
            assert context['user_id'] == walk.boss.user_id
            data = message['payload']['nova_object.data']
            assert data['action_initiator_user'] == walk.boss.user_id
            assert data['request_id'] == context['request_id'] and data['request_id'].startswith('req-')


def test_states_are_those_of_the_moment(walk):
    """The end of an action tells the state after it, the beginning the one before."""
    found = {message['event_type']: message['payload']['nova_object.data']
             for _context, message, _priority in reversed(notifications.told())
             if message['event_type'].startswith('instance.')}
    for name, before, task, after in (
            ('power_off', 'active', 'powering-off', 'stopped'), ('pause', 'active', 'pausing', 'paused'),
            ('rescue', 'active', 'rescuing', 'rescued'), ('create', 'building', 'spawning', 'active'),
            ('resize_finish', 'active', 'resize_finish', 'resized'), ('shelve_offload', 'shelved',
                                                                      'shelving_offloading', 'shelved_offloaded'),
            ('delete', 'error', 'deleting', 'deleted')):
        start, end = found[f'instance.{name}.start'], found[f'instance.{name}.end']
        assert (start['state'], start['task_state']) == (before, task), name
        assert (end['state'], end['task_state']) == (after, None), name
    assert found['instance.delete.end']['deleted_at'] and not found['instance.delete.start']['deleted_at']
    assert found['instance.reboot.error']['fault']['nova_object.data']['exception'] == 'RuntimeError'


def test_every_action_has_an_event():
    """Or stands among those that are told of in another way, with the reason."""
    for action in (actions.BUILD, *actions.ROWS):
        names = {action.events.notification, action.events.on_request} - {None}
        assert bool(names) != bool(action.events.no_event_reason), action.name
        assert {'instance.' + name for name in names} <= events.EVENTS.keys(), action.name


def test_every_task_of_a_host_has_an_event(walk):
    """Every event name of a task, as the records of actions have them."""
    told = {'compute_set_admin_password', 'compute_live_migration', 'compute_prep_resize',
            'compute_finish_revert_resize'}             # by other rows, or not at all
    with walk.cloud.cell_db.reader() as conn:
        recorded = {row[0] for row in conn.exec_driver_sql('select distinct event from instance_action_events')}
    background = {action.frame.task_event for action in actions.ROWS if action.background}
    unknown = {name for name in recorded if name.startswith('compute_')} - told - background
    unknown -= actions.NOTIFICATION_OF_TASK.keys()
    assert not unknown


def test_off_is_off(tmp_path, monkeypatch):
    """Without a driver no row is read for an event."""
    from nova.db.servers import event_facts
    from nova.tests import core
    cloud = core.Cloud(tmp_path)
    try:
        cloud.new_conductor(notifier=notify.new(cloud.conf))
        assert cloud.services.notifier is notify.OFF
        for name in ('row', 'open_actions', 'read_attached'):
            monkeypatch.setattr(event_facts, name, None)
        assert cloud.row(cloud.boot())['vm_state'] == 'active'
    finally:
        cloud.close()
