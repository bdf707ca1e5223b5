"""nova-status: whether a deployment is ready for this release.

    nova-status upgrade check

Exit codes: 0 success; 1 warnings; 2 failures that prevent the upgrade; 255 the checks could not run.
"""
from __future__ import annotations

import enum
import textwrap
import traceback
from typing import TYPE_CHECKING

from nova import exception
from nova import utils
from nova.cmd import command_line
from nova.cmd import common
from nova.cmd import tables
from nova.runtime import concurrency

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.db.cells import cells as db_cells

UNEXPECTED = 255
WIDTH = 58                   # maximum characters in a line of the table


class Code(enum.IntEnum):
    """Result of a check, and exit code of the command."""

    SUCCESS, WARNING, FAILURE = range(3)


Result = tuple[Code, str | None]
LABELS = {Code.SUCCESS: 'Success', Code.WARNING: 'Warning', Code.FAILURE: 'Failure'}


class Deployment:
    """The deployment to check, with its open databases."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        from nova.cloud import assembly
        from nova.db.cells import cells

        self.conf = conf
        self.api_db, self.cell_db = assembly.open_databases(conf)
        self.cells = cells.Cells(conf, self.api_db, self.cell_db)


def _schema(given: Deployment) -> Result:
    """Database Schema"""
    from nova.db import schema as migration

    def checked(cell: db_cells.Cell) -> None:
        migration.check(cell.db, 'cell')
    try:
        migration.check(given.api_db, 'api')
        given.cells.scatter(checked)         # ignores cells that are down: the check _cells reports them
    except exception.NovaException as error:
        return Code.FAILURE, str(error)
    return Code.SUCCESS, None


def _cells(given: Deployment) -> Result:
    """Cells v2"""
    from nova.db import schema as migration
    from nova.db.cells import cells

    if all(cell.uuid == cells.CELL0_UUID for cell in given.cells.all()):
        return Code.FAILURE, 'There is no cell for servers, only cell0. Run nova-manage cell_v2 create_cell.'
    _found, down = given.cells.scatter(lambda cell: migration.version(cell.db))
    if down:
        return Code.FAILURE, 'These cells cannot be reached: ' + ', '.join(sorted(cell.name for cell in down))
    return Code.SUCCESS, None


def _hosts(given: Deployment) -> Result:
    """Host Mappings"""
    from nova.db import online_migrations

    missing = online_migrations.unmapped_hosts(given.api_db, given.cells, None)
    if missing:
        return Code.WARNING, ('Compute hosts without a cell mapping: ' + utils.some(host for host, _cell in missing)
                              + '. Run nova-manage cell_v2 discover_hosts, or wait for a conductor to map them.')
    return Code.SUCCESS, None


def _too_old(given: Deployment) -> Result:
    """Older Than N-1 Services"""
    from nova.cmd.manage import upgrade as manage_upgrade
    from nova.rpc import versions

    old = [row for _cell, row in manage_upgrade.older_services(given.conf, given.cells)
           if row['version'] < versions.OLDEST]
    if old:
        return Code.FAILURE, ('These services are older than the oldest release that this release supports: '
                              + utils.some(f'{row["binary"]} on {row["host"]}' for row in old))
    return Code.SUCCESS, None


def _older(given: Deployment) -> Result:
    """Service Versions"""
    from nova.cmd.manage import upgrade as manage_upgrade

    old = manage_upgrade.older_services(given.conf, given.cells, alive=False)
    if old:
        return Code.WARNING, ('Services of an older release: '
                              + utils.some(f'{row["binary"]} on {row["host"]}' for _cell, row in old)
                              + '. This release sends them only messages that they support. nova-manage db contract '
                                'is refused until they are upgraded.')
    return Code.SUCCESS, None


def _data(given: Deployment) -> Result:
    """Online Data Migrations"""
    from nova.db import online_migrations

    left = online_migrations.unfinished(given.api_db, given.cells)
    if left:
        return Code.WARNING, ('Rows wait for ' + ', '.join(left) + '. Conductors convert them in the background; '
                              'nova-manage db online_data_migrations converts them immediately.')
    return Code.SUCCESS, None


def _contraction(given: Deployment) -> Result:
    """Schema Contraction"""
    from nova.db import schema as migration

    behind = [name for name, db, branch in (
        ('api', given.api_db, 'api'), *((cell.name, cell.db, 'cell') for cell in given.cells.all()))
        if migration.is_behind(db, branch, migration.CONTRACT)]
    if behind:
        return Code.WARNING, ('Schema changes to contract when every service is of this release: ' + ', '.join(behind)
                              + '. Run nova-manage db contract and nova-manage api_db contract.')
    return Code.SUCCESS, None


def _policy(given: Deployment) -> Result:
    """Policy File"""
    from nova import policies
    from nova import policy

    for service in policies.SERVICES:
        configured = given.conf[service.group].policy_file
        name = given.conf.find_file(configured) or configured
        if name.endswith('.json'):
            return Code.FAILURE, f'{name} is JSON: convert it with oslopolicy-convert-json-to-yaml.'
        try:
            policy.Policy(given.conf, service)
        except exception.NovaException as error:
            return Code.FAILURE, str(error)
    return Code.SUCCESS, None


def _levels(given: Deployment) -> Result:
    """Upgrade Levels"""
    from nova.rpc import versions

    pinned = [f'{topic} = {given.conf.upgrade_levels[topic]}' for topic in versions.TOPICS
              if given.conf.upgrade_levels[topic] != versions.AUTO]
    versions.Pins(given.conf, alone=True)
    if pinned:
        return Code.WARNING, '[upgrade_levels] pins ' + ', '.join(pinned) + ': remove it after the upgrade.'
    return Code.SUCCESS, None


def _signatures(given: Deployment) -> Result:
    """Message Signatures"""
    from nova.db.services import message_keys
    from nova.rpc import bus as rpc_bus
    from nova.rpc import inprocess

    if not rpc_bus.configured(given.conf) or given.conf.transport_url.startswith(inprocess.SCHEME + ':'):
        return Code.SUCCESS, None            # no signatures needed: all services run in one process
    with given.api_db.reader() as conn:
        required, rows = message_keys.requires_signatures(conn), message_keys.of_hosts(conn)
    good = {row['host'] for row in rows if message_keys.is_good(row)}
    waiting = sorted({row['host'] for row in rows if row['state'] == message_keys.PENDING} - good)
    approve = (f'Compare and approve the keys of {utils.some(waiting)} (nova-manage host keys, nova-manage host '
               'approve HOST --fingerprint FINGERPRINT). ' if waiting else '')
    mode = given.conf.messages.signatures
    if mode == 'require' or mode is None and required:
        return (Code.WARNING, f'Messages of hosts without an approved key are refused. {approve}'.strip()) if waiting \
            else (Code.SUCCESS, None)
    reason = f'[messages] signatures is {mode}' if mode else (
        '[messages] signatures is not set, and this deployment was created by an older release')
    return Code.WARNING, (f'Messages without a signature are accepted: {reason}. {approve}Set signatures = require on '
                          'computes, network services, APIs and schedulers, restart them, then do the same on '
                          'conductors.')


def _fence(given: Deployment) -> Result:
    """Ceph Fencing"""
    from nova.db.servers import block_devices
    from nova.virt.libvirt.moves import fencing
    from nova.virt.libvirt.local_disks import pool

    options = given.conf.libvirt
    if options.images_type != 'rbd' and not options.rbd_user:
        return Code.SUCCESS, None            # this host does not use Ceph
    found, _down = given.cells.read(block_devices.some_ceph_images)
    ceph = pool.Pool(options.images_rbd_pool, options.images_rbd_ceph_conf, options.rbd_user, options.qemu_img_timeout)
    missing = fencing.missing_rights(ceph, {image for _cell, images in found for image in images})
    if missing:
        return Code.WARNING, ' '.join([*missing, 'Evacuations to this host stop until its Ceph user has these rights.'])
    return Code.SUCCESS, None


# A check is function(Deployment) -> (Code, details or None); its docstring is its name.
CHECKS = (_schema, _cells, _hosts, _older, _too_old, _data, _contraction, _policy, _levels, _signatures,
          _fence)


def check(conf: cfg.ConfigOpts) -> Code:
    """Run all checks, print the table and return the worst Code."""

    given = Deployment(conf)
    results: list[tuple[str, Code, str | None]] = []
    for function in CHECKS:
        try:
            code, details = function(given)
        except exception.NovaException as error:
            code, details = Code.FAILURE, str(error)
        results.append((function.__doc__ or '', code, details))
        if function is _schema and code is not Code.SUCCESS:
            break                        # stop: the remaining checks could read missing tables
    tables.print_document([{'check': name, 'result': LABELS[code].lower(), 'details': details}
                           for name, code, details in results], lambda: print(table(results)))
    return max(code for _name, code, _details in results)


def table(results: list[tuple[str, Code, str | None]]) -> str:
    """Return the results as text."""
    line = '+' + '-' * (WIDTH + 2) + '+'
    lines = [line, f'| {"Upgrade Check Results":{WIDTH}} |', line]
    for name, code, details in results:
        text = [f'Check: {name}', f'Result: {LABELS[code]}',
                *textwrap.wrap(tables.escaped(f'Details: {details}', '\n\t'), WIDTH, subsequent_indent='  ')]
        lines += [*(f'| {part:{WIDTH}} |' for part in text), line]
    return '\n'.join(lines)


def new_parser() -> command_line.Parser:
    """Return the parser of the command line."""
    parser = command_line.Parser('nova-status', description='Check whether a deployment is ready for this release.',
                                 allow_abbrev=False, epilog='Options of nova.conf also apply: --config-file, …')
    command_line.show_version(parser)
    commands = parser.add_subparsers(metavar='COMMAND')
    actions = commands.add_parser('upgrade', help='check').add_subparsers(metavar='ACTION', required=True)
    checking = actions.add_parser('check', help=check.__doc__)
    checking.set_defaults(function=check)
    command_line.choose_format(checking)
    return parser


@tables.escaping()
def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    concurrency.setup()
    from nova import conf as nova_conf

    given, rest = command_line.parse(new_parser(), arguments, {'upgrade': ('check',)})
    try:
        with tables.formatted(given.output_format):
            return int(check(nova_conf.new(rest)))
    except Exception as error:
        from oslo_config import cfg
        from oslo_db import exception as db_exc
        if isinstance(error, nova_conf.UsageError):
            return common.failed('nova-status', error, 2)
        if not isinstance(error, (exception.NovaException, cfg.Error, db_exc.DBError, OSError)):
            traceback.print_exc()
        common.failed('nova-status', str(error).splitlines()[0] if str(error) else type(error).__name__)
        return UNEXPECTED
