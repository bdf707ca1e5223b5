#!/usr/bin/env python3
"""Write the next revision of a schema from the difference between the revisions and the tables of the code.

    tools/new_migration.py api|cell 'what it does'

Look it over before it is committed: what alembic cannot know (renames, moved data) is for a person to write.
"""
import sys
import tempfile

from nova.db import engine
from nova.db import migration


def main(branch, message):
    from alembic import command

    with tempfile.TemporaryDirectory() as directory:
        db = engine.Database(f'sqlite:///{directory}/empty.sqlite')
        revisions = list((migration.DIRECTORY / branch).glob(f'{branch}_*.py'))
        if revisions:
            migration.sync(db, branch)
        revision = f'{branch}_{len(revisions) + 1:04d}'
        with db.writer() as conn:
            config = migration.config(branch, conn)
            config.set_main_option('file_template', '%%(rev)s')
            config.attributes['render_item'] = _render
            command.revision(config, message, autogenerate=True, rev_id=revision)
    print(migration.DIRECTORY / branch / f'{revision}.py')


def _render(kind, item, autogen_context):
    """Types of ours are written as what they are in SQL: a revision must not change with the code."""
    from alembic.autogenerate import render
    from sqlalchemy import types

    if kind == 'type' and isinstance(item, types.TypeDecorator):
        return render._repr_type(item.impl, autogen_context)
    return False


if __name__ == '__main__':
    if len(sys.argv) != 3 or sys.argv[1] not in migration.BRANCHES:
        sys.exit(__doc__)
    main(*sys.argv[1:])
