"""nova-manage cert: the authority of nova-cert and its certificates, on the host with its files."""
from __future__ import annotations

import re
from typing import Any, TYPE_CHECKING

from nova import exception
from nova import utils
from nova.cmd import tables

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.cert import authorities


def _authorities(conf: cfg.ConfigOpts) -> authorities.Authorities:
    """Open the authorities.

    :raises InvalidInput: new files would not belong to the daemon's user
    """
    import os

    from nova.cert import authorities
    found = authorities.of(conf)
    there = next(path for path in (found.path.absolute(), *found.path.absolute().parents) if path.exists())
    if there.stat().st_uid != os.geteuid():
        raise exception.InvalidInput(reason=f'{there} belongs to the user of nova-cert, not to the current user. Run '
                                            'the command as that user, with sudo -u.')
    return found


def _list(conf: cfg.ConfigOpts, project: str | None = None, user: str | None = None) -> None:
    """List the certificates of users, the newest last, and whether they are valid, revoked or ended."""
    from nova.cert import signing
    now = utils.utcnow()
    tables.print_table(('Serial', 'Project', 'User', 'Ends (UTC)', 'State'), [
        (signing.serial_text(row.certificate), row.project_id, row.user_id, utils.isotime(row.ends_at),
         'ended' if row.ends_at <= now else 'revoked' if row.revoked_at else 'valid')
        for row in sorted(_authorities(conf).issued(project, user), key=lambda row: row.ends_at)])


def ca(conf: cfg.ConfigOpts, project: str) -> None:
    """Print the CA certificates of a project in PEM format, the newest first. Missing ones are created."""
    print(_authorities(conf).trusted(project), end='')


def crl(conf: cfg.ConfigOpts, project: str) -> None:
    """Print the revocation lists of a project's authority and of its parents, in PEM format.

    A list is valid for 30 days. Distribute it to the verifiers of certificates at least every two weeks.
    """
    print(_authorities(conf).lists(project), end='')


def revoke(conf: cfg.ConfigOpts, project: str | None = None, user: str | None = None,
           serial: str | None = None) -> int:
    """Revoke one certificate, or all of a user, of a project, or of a user in a project.

    Exit code 1: no certificate was valid.
    """
    if not (project or user or serial):
        raise exception.InvalidInput('Specify what to revoke: --serial, --user or --project.')
    count = _authorities(conf).revoke(project, user, _number(serial) if serial else None)
    print(f'{count} revoked. nova-manage cert crl prints the new list.')
    return int(not count)


def _number(serial: str) -> int:
    if not re.fullmatch('[0-9a-fA-F]{1,40}', serial):
        raise exception.InvalidInput(reason=f'{serial!r} is not a serial number: it must have 40 hexadecimal digits '
                                            'or fewer.')
    return int(serial, 16)


def rotate(conf: cfg.ConfigOpts, project: str | None = None, forget: bool = False) -> None:
    """Create a new key and certificate for the cloud's authority, or for that of a project.

    Earlier certificates stay trusted until they expire, and data encrypted for them can be decrypted. With --forget
    they become invalid immediately, and their keys are removed. A running nova-cert uses the new ones immediately.
    """
    made = _authorities(conf).rotate(project, forget)
    print(made.subject.rfc4514_string())
    if forget:
        print('The previous CAs and their keys were removed. Users need new certificates and must trust the new CA '
              'certificate (GET os-certificates/root).')


_PROJECT = {'--project': {'metavar': 'PROJECT', 'help': 'id of a project'}}
_ITS = {'project': {'metavar': 'PROJECT', 'help': 'id of the project'}}
_USER = {'--user': {'metavar': 'USER', 'help': 'id of a user'}}

CHANGE_FILES = (revoke, rotate)          # and no database
COMMANDS = {'list': _list, 'ca': ca, 'crl': crl, 'revoke': revoke, 'rotate': rotate}
OPTIONS: dict[Any, Any] = {
    _list: {**_PROJECT, **_USER}, ca: _ITS, crl: _ITS,
    revoke: {'--serial': {'metavar': 'SERIAL', 'help': 'serial number of a certificate, as in '
                                                       'cert list'}, **_USER, **_PROJECT},
    rotate: {'--project': {'metavar': 'PROJECT', 'help': 'id of the project whose CA to rotate, with [crypto] '
                                                         'use_project_ca (default: the CA of the cloud)'},
             '--forget': {'action': 'store_true', 'help': 'distrust the previous CAs and remove their keys, for '
                                                          'example after a theft'}},
}
EXIT_CODES = {revoke: {1: 'no certificate was valid'}}
