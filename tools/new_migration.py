#!/usr/bin/env python3
"""Write the next revision of a schema from the difference between the revisions and the tables of the code.

    tools/new_migration.py api|cell 'what it does'                 # what it adds: run before the upgrade
    tools/new_migration.py --contract api|cell 'what it does'      # what it drops and tightens: run at its end

Look it over before it is committed: what alembic cannot know (renames, moved data) is for a person to write. A column
that is dropped is nullable, or has a server_default, in the release that still has it: its code does not fill it.
"""
import sys
import tempfile

from nova.db import engine
from nova.db import schema as migration


def main(branch, message, phase):
    from alembic import command

    with tempfile.TemporaryDirectory() as directory:
        db = engine.Database(f'sqlite:///{directory}/empty.sqlite')
        migration.sync(db, branch)
        migration.contract(db, branch)
        revisions = list(migration.directory(branch, phase).glob(f'{branch}_*.py'))
        revision = f'{migration.directory(branch, phase).name}_{len(revisions) + 1:04d}'
        with db.writer() as conn:
            config = migration.config(branch, conn, phase)
            config.set_main_option('file_template', '%%(rev)s')
            config.attributes['render_item'] = _render
            command.revision(config, message, autogenerate=True, rev_id=revision,
                             process_revision_directives=lambda context, revision, directives: _keep(
                                 directives[0].upgrade_ops, phase))
    print(migration.directory(branch, phase) / f'{revision}.py')


def _keep(container, phase):
    """Leave the operations of one phase."""
    from alembic.operations import ops

    kept = []
    for operation in container.ops:
        if isinstance(operation, ops.ModifyTableOps):
            _keep(operation, phase)
            if operation.ops:
                kept.append(operation)
        elif _phase(operation) == phase:
            kept.append(operation)
        else:
            print(f'left to the other phase: {operation.to_diff_tuple()}', file=sys.stderr)
    container.ops = kept


def _phase(operation):
    from alembic.operations import ops

    if isinstance(operation, ops.AlterColumnOp):
        return migration.CONTRACT if operation.modify_nullable is False else migration.EXPAND
    drops = (ops.DropTableOp, ops.DropColumnOp, ops.DropIndexOp, ops.DropConstraintOp, ops.CreateUniqueConstraintOp)
    return migration.CONTRACT if isinstance(operation, drops) else migration.EXPAND


def _render(kind, item, autogen_context):
    """Types of ours are written as what they are in SQL: a revision must not change with the code."""
    from alembic.autogenerate import render
    from sqlalchemy import types

    if kind == 'type' and isinstance(item, types.TypeDecorator):
        return render._repr_type(item.impl, autogen_context)
    return False


if __name__ == '__main__':
    phase = migration.CONTRACT if sys.argv[1:2] == ['--contract'] else migration.EXPAND
    given = [each for each in sys.argv[1:] if each != '--contract']
    if len(given) != 2 or given[0] not in migration.BRANCHES:
        sys.exit(__doc__)
    main(*given, phase)
