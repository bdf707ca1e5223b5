"""Expand and contract: revisions that older code survives, and the step that it would not."""
import ast

import pytest

from nova import exception
from nova.db import engine
from nova.db import schema as migration
from nova.tests.support import schema_phases
from nova.tests.support.schema_phases import check_phases

releases = schema_phases.releases


FORBIDDEN = {'drop_table', 'drop_column', 'drop_index', 'drop_constraint', 'create_unique_constraint', 'rename_table',
             'execute'}
# {revision: operations that older code survives}: of 0015, it compares names in all domains, and its rows have '';
# 0017 rounds numbers to the digits that they had
SURVIVED = {'api_expand_0015': {'drop_constraint', 'create_unique_constraint'}, 'api_expand_0017': {'execute'}}


def violations(name, source):
    """[(revision, operation)] that code of the release before would not survive."""
    found = []
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    new = {call.args[0].value for call in calls if isinstance(call.func, ast.Attribute)
           and call.func.attr == 'create_table' and isinstance(call.args[0], ast.Constant)}   # new to older code
    batches = {item.optional_vars.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.With)
               for item in node.items if isinstance(item.optional_vars, ast.Name)}
    for call in calls:
        function = call.func
        if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
            continue
        if function.value.id not in {'op', 'batch', *batches}:
            continue
        options = {each.arg: each.value for each in call.keywords}
        bad = function.attr in FORBIDDEN - SURVIVED.get(name, set())
        if function.attr == 'alter_column':
            bad = _is(options.get('nullable'), False) or 'new_column_name' in options
        if function.attr == 'add_column':
            column = {each.arg: each.value for each in call.args[-1].keywords}
            bad = _is(column.get('nullable'), False) and 'server_default' not in column
        if function.attr == 'create_index':
            bad = _is(options.get('unique'), True) and call.args[1].value not in new
        if bad:
            found.append((name, function.attr))
    return found


def _is(node, value):
    return isinstance(node, ast.Constant) and node.value is value


@pytest.mark.parametrize('branch', migration.BRANCHES)
def test_expanding_takes_nothing_away(branch):
    for path in sorted(migration.directory(branch).glob(f'{branch}_*.py')):
        source = path.read_text()
        upgrade = source[source.index('def upgrade'):].partition('\ndef downgrade')[0]
        assert violations(path.stem, upgrade) == []


@pytest.mark.parametrize('line', [
    "op.drop_column('t', 'c')", "op.alter_column('t', 'c', nullable=False)", "op.drop_table('t')",
    "op.add_column('t', sa.Column('c', sa.Integer(), nullable=False))",
    "batch.drop_column('c')", "op.create_index('i', 't', ['c'], unique=True)",
])
def test_contracting_statement_is_a_violation(line):
    assert len(violations('x', line)) == 1


def test_a_table_of_the_revision_itself_may_have_a_unique_index():
    index = "op.create_index('i', 't', ['c'], unique=True)"
    assert violations('x', f"op.create_table('t')\n{index}") == []
    assert len(violations('x', f"op.create_table('other')\n{index}")) == 1


@pytest.mark.parametrize('line', [
    "op.add_column('t', sa.Column('c', sa.Integer(), nullable=True))", "op.create_table('t')",
    "op.add_column('t', sa.Column('c', sa.Integer(), server_default='0', nullable=False))",
    "op.alter_column('t', 'c', nullable=True)", "op.create_index('i', 't', ['c'], unique=False)",
])
def test_expanding_statement_is_no_violation(line):
    assert violations('x', line) == []


@pytest.mark.parametrize('branch', migration.BRANCHES)
def test_contractions_are_one_line(branch):
    names = sorted(path.stem for path in migration.directory(branch, migration.CONTRACT).glob(f'{branch}_*.py'))
    assert names == [f'{branch}_contract_{number:04d}' for number in range(1, len(names) + 1)]
    assert migration.head(branch, migration.CONTRACT) == (names[-1] if names else None)


# ---- revisions of a release to come

def test_an_older_release_runs_on_an_expanded_schema_and_not_on_a_contracted_one(tmp_path, releases):
    if migration.head('cell', migration.CONTRACT):
        pytest.skip('this release has a contraction of its own: the next one would drop what it drops')
    check_phases(engine.Database(f'sqlite:///{tmp_path}/x.sqlite'), releases)


def test_a_schema_of_something_else_is_refused(tmp_path):
    db = engine.Database(f'sqlite:///{tmp_path}/x.sqlite')
    migration.sync(db, 'cell')
    with db.writer() as conn:
        conn.exec_driver_sql("UPDATE alembic_version SET version_num = 'api_expand_0001'")
    with pytest.raises(exception.DatabaseNotReady, match='api_expand_0001'):
        migration.check(db, 'cell')
