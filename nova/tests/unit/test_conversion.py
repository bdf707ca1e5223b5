"""Conversion of databases and stored files of the tree before the first release, on SQLite.

The other databases are in integration/test_databases.py, a whole cloud of that tree in functional/test_conversion.py.
"""
import json
import os
import pathlib
import stat
import uuid

import pytest
import sqlalchemy as sa

from nova import conf as nova_conf
from nova import exception
from nova.cloud import conversion as cloud_conversion
from nova.cmd.manage import main as manage
from nova.db import conversion
from nova.db import engine
from nova.db import schema
from nova.db.cells import rows as cells
from nova.db.services import services
from nova.runtime import state_directory
from nova.runtime import stored_files
from nova.tests import schemas
from nova.tests.older_release import stored

FILES = {'api': 'api.sqlite', 'cell': 'cell1.sqlite'}


class Deployment:
    """The databases of a stopped all-in-one in a state directory."""

    def __init__(self, directory):
        self.directory = directory
        self.databases = {branch: engine.Database(f'sqlite:///{directory}/{name}') for branch, name in FILES.items()}
        self.before = {}
        for branch, db in self.databases.items():
            stored.make(db, branch)
            self.before[branch] = stored.contents(db, branch)
        (directory / 'nova.conf').write_text('[DEFAULT]\ncompute_driver = fake\n')

    def convert(self):
        conf = nova_conf.new(files=[], state_path=str(self.directory))
        return cloud_conversion.convert(conf, self.databases['api'], self.databases['cell'])

    def versions(self):
        return [schema.version(db) for db in self.databases.values()]

    def contents(self):
        return {branch: stored.contents(db, branch) for branch, db in self.databases.items()}

    def copies(self):
        return sorted(self.directory.glob(f'*{cloud_conversion.COPY}*'))

    def manage(self, capsys, *words):
        code = manage.main(['--config-file', str(self.directory / 'nova.conf'), '--state-path', str(self.directory),
                            *words])
        return code, *capsys.readouterr()


@pytest.fixture
def deployment(tmp_path):
    made = Deployment(tmp_path)
    yield made
    for db in made.databases.values():
        db.dispose()


FIRST = [schema.revisions(branch)[0] for branch in FILES]


def test_each_row_renames_a_stored_value_and_nothing_else_changes(deployment):
    """The converted rows are those before, with each name of ROWS replaced."""
    expected = {}
    for branch, tables in deployment.before.items():
        expected[branch] = {table: [json.loads(row) for row in rows] for table, rows in tables.items()}
        for row in conversion.ROWS[branch]:
            if isinstance(row, conversion.Index):
                continue
            if isinstance(row, conversion.Column):
                for each in (rows := expected[branch].get(row.table, [])):
                    assert row.old in each and row.new not in each
                rows[:] = [{row.new if name == row.old else name: value for name, value in each.items()}
                           for each in rows]
                continue
            values = [each for each in expected[branch][row.table] if each[row.column] is not None]
            found = 0
            for each in values:
                document = each[row.column] if isinstance(row, conversion.Value) else json.loads(each[row.column])
                if isinstance(row, conversion.Value) and document == row.old:
                    each[row.column], found = row.new, found + 1
                elif isinstance(row, conversion.Key) and row.old in document:
                    document = {row.new if name == row.old else name: value for name, value in document.items()}
                    each[row.column], found = json.dumps(document, separators=(',', ':')), found + 1
            assert found, f'rows.json has no {row.old} in {row.table}.{row.column}'
    deployment.convert()
    assert deployment.versions() == FIRST
    assert deployment.contents() == {branch: {table: sorted(map(json.dumps, rows)) for table, rows in tables.items()}
                                     for branch, tables in expected.items()}


def test_the_converted_schema_is_the_one_of_the_code(deployment, tmp_path):
    deployment.convert()
    for branch, db in deployment.databases.items():
        schema.sync(db, branch)
        made = engine.Database(f'sqlite:///{tmp_path}/made-{branch}.sqlite')
        schema.sync(made, branch)
        assert schemas.reflected(db) == schemas.reflected(made) and schema.differences(db, branch) == []
        made.dispose()


@pytest.mark.parametrize('step', ['column', 'index'])
def test_an_interrupted_rename_of_a_column_is_repeated(tmp_path, step):
    """On MariaDB, which commits the rename of a column and that of its index by themselves."""
    db = engine.Database(f'sqlite:///{tmp_path}/x.sqlite')
    row = conversion.Column('t', 'old', 'new')
    with db.writer() as conn:
        conn.exec_driver_sql('CREATE TABLE t (id INTEGER PRIMARY KEY, old INTEGER, older INTEGER)')
        conn.exec_driver_sql('CREATE INDEX ix_t_old ON t (old)')
        conn.exec_driver_sql('CREATE INDEX ix_t_older ON t (older)')
        if step == 'index':
            conn.exec_driver_sql('ALTER TABLE t RENAME COLUMN old TO new')
        assert row.apply(conn) == (step == 'column') and row.apply(conn) == 0
        inspector = sa.inspect(conn)
        assert [column['name'] for column in inspector.get_columns('t')] == ['id', 'new', 'older']
        assert {index['name']: index['column_names'] for index in inspector.get_indexes('t')} == {
            'ix_t_new': ['new'], 'ix_t_older': ['older']}
    db.dispose()


def test_the_copies_have_the_rows_before_the_conversion(deployment):
    paths = deployment.convert()
    assert sorted(map(pathlib.Path, paths)) == deployment.copies() and len(paths) == 2
    for path, branch in zip(paths, FILES):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        copy = engine.Database(f'sqlite:///{path}')
        assert schema.version(copy) == schema.PREDECESSORS[branch]
        assert stored.contents(copy, branch) == deployment.before[branch]
        copy.dispose()


def test_a_converted_deployment_is_left_alone(deployment):
    deployment.convert()
    after, copies = deployment.contents(), deployment.copies()
    assert deployment.convert() == []
    assert deployment.contents() == after and deployment.copies() == copies


@pytest.mark.parametrize('place', ['copy', 'files', 'rename', 'stamp', 'second database'])
def test_an_interrupted_conversion_is_repeated(deployment, monkeypatch, tmp_path, place):
    """The process dies at one step; the next run does all that is left."""
    steps = {'copy': (conversion.sqlite3, 'connect', 1), 'files': (stored_files, 'convert', 1),
             'rename': (conversion.Key, 'apply', 1), 'stamp': (schema, 'stamp', 1),
             'second database': (schema, 'stamp', 2)}
    owner, name, at = steps[place]
    real, calls = getattr(owner, name), []

    def die(*args, **more):
        calls.append(args)
        if len(calls) == at:
            raise KeyboardInterrupt
        return real(*args, **more)
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, die)
        with pytest.raises(KeyboardInterrupt):
            deployment.convert()
    # the API database is the last one: a repeated call looks at it
    converted = {'cell': FIRST[1]} if place == 'second database' else {}
    assert deployment.versions() == list({**schema.PREDECESSORS, **converted}.values())
    for branch in FILES.keys() - converted.keys():
        assert deployment.contents()[branch] == deployment.before[branch]
    deployment.convert()
    assert deployment.versions() == FIRST
    assert 'event_facts' in ''.join(deployment.contents()['cell']['instance_actions'])


@pytest.mark.parametrize('at', [1, 2, 3])
def test_an_interrupted_conversion_of_several_cells_is_repeated(deployment, monkeypatch, at):
    """A repeated call tests the configured databases only: they are due until the other cells are converted."""
    second = engine.Database(f'sqlite:///{deployment.directory}/cell2.sqlite')
    stored.make(second, 'cell')
    with deployment.databases['api'].writer() as conn:
        cells.insert(conn, {'uuid': str(uuid.uuid4()), 'name': 'cell2', 'transport_url': '', 'disabled': False,
                            'database_url': str(second.url)})
    real, calls = schema.stamp, []

    def die(*args):
        calls.append(args)
        if len(calls) == at:
            raise KeyboardInterrupt
        return real(*args)
    with monkeypatch.context() as patched:
        patched.setattr(schema, 'stamp', die)
        with pytest.raises(KeyboardInterrupt):
            deployment.convert()
    assert len(deployment.convert()) == 4 - at
    assert [*deployment.versions(), schema.version(second)] == [*FIRST, FIRST[1]]
    second.dispose()


@pytest.mark.parametrize('revision', ['api_0032', 'api_0034', 'xyz'])
def test_another_revision_is_refused_in_one_sentence(deployment, revision):
    with deployment.databases['api'].writer() as conn:
        schema.stamp(conn, revision)
    for action in (deployment.convert, lambda: schema.sync(deployment.databases['api'], 'api'),
                   lambda: schema.check(deployment.databases['api'], 'api')):
        with pytest.raises(exception.DatabaseUnknown) as caught:
            action()
        for word in (revision, 'api_expand_0001', 'api_0033', 'restore a backup'):
            assert word in str(caught.value)
    assert deployment.versions() == [revision, 'cell_0011'] and deployment.copies() == []
    assert stored.contents(deployment.databases['cell'], 'cell') == deployment.before['cell']


def test_a_database_that_is_due_is_refused_with_the_command(deployment):
    for branch, db in deployment.databases.items():
        for action in (schema.sync, schema.check):
            with pytest.raises(exception.DatabaseNotReady, match='nova-manage db convert'):
                action(db, branch)


def test_the_sync_commands_convert(deployment, capsys):
    code, out, err = deployment.manage(capsys, 'api_db', 'sync')
    assert (code, err) == (0, '') and out.count('A copy of the data before the conversion is in') == 2
    # the cell, too: one moment of the whole deployment. Only the API database is upgraded
    assert deployment.versions() == [schema.revisions('api')[-1], FIRST[1]]
    assert deployment.manage(capsys, 'db', 'sync')[:2] == (0, '')
    assert deployment.manage(capsys, 'db', 'convert')[:2] == (0, 'No conversion is needed.\n')
    for branch, db in deployment.databases.items():
        schema.check(db, branch)


def test_a_state_that_a_process_uses_is_not_converted(deployment, capsys):
    with state_directory.take(deployment.directory):
        code, _out, err = deployment.manage(capsys, 'db', 'convert')
    assert code == 1 and 'is in use by process' in err and deployment.copies() == []
    deployment.databases['cell'].run(services.report, 'host2', 'nova-conductor', 'conductor', 'nova', 2)
    code, _out, err = deployment.manage(capsys, 'db', 'convert')
    assert code == 1 and 'Services use this database: nova-conductor on host2' in err and deployment.copies() == []
    assert deployment.versions() == list(schema.PREDECESSORS.values())


def test_a_copy_that_cannot_be_written_converts_nothing(deployment, tmp_path):
    target = tmp_path / 'missing' / 'copy'
    with pytest.raises(exception.InvalidInput, match='Nothing was converted'):
        conversion.copy(deployment.databases['api'], str(target))
    assert not target.parent.exists()


def test_a_key_is_renamed_at_the_top_of_an_object_alone(tmp_path):
    db = engine.Database(f'sqlite:///{tmp_path}/x.sqlite')
    texts = {1: '{"a":{"told":1}}', 2: '["told"]', 3: '{"b":"told"}', 4: '{"told":2,"c":[3]}', 5: None}
    with db.writer() as conn:
        conn.exec_driver_sql('CREATE TABLE t (id INTEGER PRIMARY KEY, document TEXT)')
        for number, text in texts.items():
            conn.execute(sa.text('INSERT INTO t VALUES (:id, :text)'), {'id': number, 'text': text})
        assert conversion.Key('t', 'document', 'told', 'event_facts').apply(conn) == 1
    with db.reader() as conn:
        assert dict(map(tuple, conn.exec_driver_sql('SELECT id, document FROM t'))) == {
            **texts, 4: '{"event_facts":2,"c":[3]}'}
    db.dispose()


# ---- stored files

def upper(content):
    return content.upper()


ROWS = (stored_files.StoredFile('guests/*/note.json', upper),
        stored_files.StoredFile('guests/*/old-name', name='new-name'))


@pytest.fixture
def files(tmp_path):
    """(configuration, directory of a guest)"""
    guest = tmp_path / 'guests' / 'one'
    guest.mkdir(parents=True)
    (guest / 'note.json').write_text('abc')
    (guest / 'note.json').chmod(0o640)
    (guest / 'old-name').write_text('def')
    return nova_conf.new(files=[], state_path=str(tmp_path)), guest


def test_stored_files_are_rewritten_and_renamed_and_copied(files):
    conf, guest = files
    assert stored_files.convert(conf, ROWS) == [guest / 'note.json', guest / 'old-name']
    assert {path.name: path.read_text() for path in guest.iterdir()} == {'note.json': 'ABC', 'new-name': 'def'}
    assert stat.S_IMODE((guest / 'note.json').stat().st_mode) == 0o640
    copies = guest.parents[1] / stored_files.COPIES / guest.relative_to('/')
    assert {path.name: path.read_text() for path in copies.iterdir()} == {'note.json': 'abc', 'old-name': 'def'}
    assert {stat.S_IMODE(path.stat().st_mode) for path in copies.iterdir()} == {0o600}
    assert stored_files.convert(conf, ROWS) == []


@pytest.mark.parametrize('step, at', [('link', 1), ('replace', 1), ('link', 2), ('replace', 2)])
def test_an_interrupted_conversion_of_files_is_repeated(files, monkeypatch, step, at):
    conf, guest = files
    real, calls = getattr(os, step), []

    def die(*args):
        calls.append(args)
        if len(calls) == at:
            raise KeyboardInterrupt
        real(*args)
    with monkeypatch.context() as patched:
        patched.setattr(os, step, die)
        with pytest.raises(KeyboardInterrupt):
            stored_files.convert(conf, ROWS)
    stored_files.convert(conf, ROWS)
    assert {path.name: path.read_text() for path in guest.iterdir()} == {'note.json': 'ABC', 'new-name': 'def'}
    copies = guest.parents[1] / stored_files.COPIES / guest.relative_to('/')
    assert {path.name: path.read_text() for path in copies.iterdir()} == {'note.json': 'abc', 'old-name': 'def'}


def test_records_of_guests_get_the_new_names_of_their_fields(tmp_path):
    guest, record = tmp_path / 'instances' / 'one', tmp_path / 'guest-records' / 'host1' / 'one.json'
    for directory in (guest, record.parent):
        directory.mkdir(parents=True)
    for name in ('lent', 'arriving.json', 'leaving.host.example.json'):
        (guest / name).write_text(name)
    (guest / 'guest.json').write_text(json.dumps({
        'taken_from': 'a', 'moved_from': '/b', 'hostdevs': [{'held': True}], 'rescued': {'late': []},
        'volumes': [{'source': {'below': [['c', 'raw']]}}, {'source': {'path': '/d'}}], 'late': 1}))
    record.write_text(json.dumps({'left': True, 'done': [['r', 'e']], 'server': {'left': 1}}))
    (record.parent / 'bad.json').write_text('{')
    exporter = tmp_path / 'volumes' / 'exports' / 'host1' / 'host.json'
    exporter.parent.mkdir(parents=True)
    exporter.write_text(json.dumps({'host': 'host1', 'port': 1, 'ends_at': 2.5}))
    conf = nova_conf.new(files=[], state_path=str(tmp_path))
    assert sorted(path.name for path in stored_files.convert(conf)) == [
        'arriving.json', 'guest.json', 'host.json', 'leaving.host.example.json', 'lent', 'one.json']
    assert json.loads(exporter.read_text()) == {'host': 'host1', 'port': 1, 'certificate_expires_at': 2.5}
    assert json.loads((guest / 'guest.json').read_text()) == {
        'previous_host': 'a', 'source_directory': '/b', 'hostdevs': [{'claimed_by_move': True}],
        'rescued': {'hot_plugged': []}, 'late': 1,
        'volumes': [{'source': {'backing_files': [['c', 'raw']]}}, {'source': {'path': '/d'}}]}
    assert json.loads(record.read_text()) == {'has_left': True, 'completed_tasks': [['r', 'e']], 'server': {'left': 1}}
    assert {path.name: path.read_text() for path in guest.iterdir() if path.name != 'guest.json'} == {
        'in-migration': 'lent', 'transfer.json': 'arriving.json',
        'post-copy.host.example.json': 'leaving.host.example.json'}
    assert (record.parent / 'bad.json').read_text() == '{' and stored_files.convert(conf) == []


def test_incoming_servers_of_the_fake_driver_are_renamed(tmp_path):
    fake = tmp_path / 'fake'
    fake.mkdir()
    (fake / 'host1.arriving').write_text('["one"]')
    conf = nova_conf.new(files=[], state_path=str(tmp_path))
    assert stored_files.convert(conf) == []                  # another driver
    conf.set_override('state_dir', str(fake), group='fake')
    assert stored_files.convert(conf) == [fake / 'host1.arriving']
    assert {path.name: path.read_text() for path in fake.iterdir()} == {'host1.incoming': '["one"]'}
