"""nova-manage audit: verification of the audit log."""
from __future__ import annotations

import functools
import getpass
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from nova.cmd import tables
from nova.cmd.command_line import Refused

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.db import engine
    from nova.db.audit import log
    from nova.db.audit import records

BROKEN, UNREACHED = 3, 4
# options that name the target of a command: names and ids, never a URL or a password
TARGETS = ('cell_uuid', 'host', 'server', 'name', 'image_id', 'path', 'serial', 'user', 'project')


def verify(conf: cfg.ConfigOpts, seal: list[str] | None) -> int:
    """Verify the hash chains of the audit logs in the API database and in all cells."""
    from nova.cloud import assembly
    from nova.db import errors
    from nova.db.audit import records
    from nova.db.cells import cells as db_cells
    exported = [_parsed(text) for text in seal or ()]
    api_db, cells = assembly.checked_databases(conf)
    databases: list[tuple[str, Callable[[], engine.Database]]] = [('api', lambda: api_db)]
    rows: list[tuple[object, ...]] = []
    code = 0
    databases += [(f'cell {cell.name}', functools.partial(getattr, cell, 'db')) for cell in cells.all()]
    unknown = {name for name, _seal in exported} - {name for name, _db in databases}
    if unknown:
        raise Refused(f'There is no database called {sorted(unknown)[0]!r}: ' + ', '.join(
            name for name, _db in databases), 2)
    for name, opened in databases:
        try:
            found = records.verify(opened(), conf.audit.key.encode(), [seal for of, seal in exported if of == name])
        except db_cells.UNREACHABLE as error:
            rows.append((name, '', '', '', f'It cannot be reached: {errors.reason(error)}'))
            code = code or UNREACHED
            continue
        rows.append((name, f'{found.first} to {found.last}' if found.last >= found.first else 'none', found.waiting,
                     found.seal, found.wrong or 'as sealed'))
        code = BROKEN if found.wrong else code
    tables.print_table(('Database', 'Records', 'Not sealed', 'Seal', 'Result'), rows)
    return code


def _parsed(text: str) -> tuple[str, records.Seal]:
    """Parse ``name=number:digest``; return (name of the database, Seal)."""
    from nova.db.audit import records
    name, _, seal = text.rpartition('=')
    try:
        return name or 'api', records.Seal.parse(seal)
    except ValueError:
        raise Refused(f'{text} is not a seal. Its form is DATABASE=NUMBER:DIGEST, as in the log of '
                      'nova-conductor.', 2) from None


def record_of(words: list[str], options: Mapping[str, str | int | float | Sequence[str] | None]) -> log.OperatorRecord:
    """Return the audit record of a command.

    :param words: category and action
    :param options: {name: value} that were given
    """
    from nova.db.audit import log
    target = next(((name, value) for name in TARGETS if isinstance(value := options.get(name), str)), (None, None))
    record = log.OperatorRecord('CLI', '', 'nova-manage:' + ' '.join(words), target_type=target[0],
                                  target_id=target[1], remote_address=socket.gethostname(), code=0)
    record.values['user_id'] = f'os:{_user()}'
    if os.environ.get('SUDO_USER'):
        record.values['reason'] = f'by sudo of {os.environ["SUDO_USER"]}'
    return record


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):              # no user name exists for the user id
        return str(os.getuid())


COMMANDS = {'verify': verify}
OPTIONS = {verify: {'--seal': {
    'metavar': 'DATABASE=NUMBER:DIGEST', 'action': 'append',
    'help': 'an earlier seal from the log of nova-conductor; may be repeated'}}}
EXIT_CODES = {verify: {0: 'All records match their seals.', 1: 'Another error occurred.',
                       2: 'A --seal is malformed.', BROKEN: 'A record was changed, removed or inserted.',
                       UNREACHED: 'A cell cannot be reached; the records of the others match their seals.'}}
