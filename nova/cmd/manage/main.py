"""nova-manage: schema management, and direct database access for operators."""
from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from typing import Any, TYPE_CHECKING

from nova import exception
from nova import policies
from nova import utils
from nova.cmd import command_line
from nova.cmd import common
from nova.cmd import tables
from nova.cmd.manage import adoption as manage_adoption
from nova.cmd.manage import archive as manage_archive
from nova.cmd.manage import audit as manage_audit
from nova.cmd.manage.cells import commands as manage_cells
from nova.cmd.manage import consoles as manage_consoles
from nova.cmd.manage import differences as manage_differences
from nova.cmd.manage import hosts as manage_host
from nova.cmd.manage import identity as manage_identity
from nova.cmd.manage import images as manage_image
from nova.cmd.manage import logs as manage_logs
from nova.cmd.manage import placement as manage_placement
from nova.cmd.manage import networks as manage_networks
from nova.cmd.manage import prepare as manage_prepare
from nova.cmd.manage import projects as manage_projects
from nova.cmd.manage import quotas as manage_quotas
from nova.cmd.manage import servers as manage_servers
from nova.cmd.manage import shell as manage_shell
from nova.cmd.manage import state as manage_state
from nova.cmd.manage import tls as manage_tls
from nova.cmd.manage import upgrade as manage_upgrade
from nova.runtime import concurrency
from nova.runtime import entry_points

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.db import engine
    from nova.db.audit import log
    from nova.db.cells import cells as db_cells

PARTS = 'nova.manage'        # entry point group of optional commands: modules such as nova/cert/manage.py
UNEXPECTED = 255             # exit code for failures that a command's EXIT_CODES do not list


@tables.escaping()
def main(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit code.

    After an error, the code is 1 or a code of the command, and stderr has a message. A wrong command line returns 2.
    """
    concurrency.setup()
    from oslo_config import cfg
    from oslo_db import exception as db_exc

    from nova import conf as nova_conf

    before, command = command_line.parted(sys.argv[1:] if arguments is None else arguments, COMMANDS)
    parser = command_parser()
    given, rest = parser.parse_known_args(command)
    if 'function' not in given:           # the category or the action is missing: print the choices
        try:
            nova_conf.new(before + rest)
        except cfg.Error as error:
            return common.failed('nova-manage', error, 2)
        getattr(given, 'parser', parser).print_help()
        return 2
    unexpected = UNEXPECTED if UNEXPECTED in EXIT_CODES.get(given.function, ()) else 1
    try:
        options = {name: value for name, value in vars(given).items()
                   if name not in ('function', 'parser', 'output_format')}
        conf = nova_conf.new(before + rest)
        with tables.formatted(getattr(given, 'output_format', 'table')):
            try:
                return _recorded(given.function, command, conf, options) or 0
            except command_line.Ended as ended:
                print(ended)
                return ended.code
    except command_line.Refused as refused:
        return common.failed('nova-manage', refused, refused.code)
    except exception.NovaException as error:
        return common.failed('nova-manage', error, unexpected)
    except cfg.Error as error:
        return common.failed('nova-manage', error, 2)
    except BrokenPipeError:              # the reader has closed the pipe
        sys.stdout = None
        return 1
    except OSError as error:
        return common.failed('nova-manage', error, unexpected)
    except db_exc.DBError as error:
        from nova.db import errors
        return common.failed('nova-manage', f'The database cannot be used: {errors.reason(error)}', unexpected)


def _recorded(function: Callable[..., int | None], command: list[str], conf: cfg.ConfigOpts,
              options: dict[str, Any]) -> int | None:
    """Run a command and write its audit record: with the first database write, or at the end if only files change."""
    from nova.db.audit import log

    record = manage_audit.record_of(_words(command), options)
    try:
        with log.recording(record):
            code = function(conf, **options)
            if function in CHANGE_FILES and not code:
                _record_alone(conf, record)
            return code
    except Exception as error:
        if record.written and record.database is not None:
            from nova import notify
            log.Auditor(record.database, notify.OFF).finish(record, 500, error)
        raise


def _record_alone(conf: cfg.ConfigOpts, record: log.Record) -> None:
    """Write the audit record of a command that wrote to no database; print an error if this fails."""
    from oslo_db import exception as db_exc

    from nova.cloud import assembly
    from nova.db import errors
    if record.written:
        return
    try:
        api_db, _cells = assembly.checked_databases(conf)
        api_db.run(lambda conn: None)
    except exception.NovaException as error:
        reason = error.message
    except db_exc.DBError as error:
        reason = errors.reason(error)
    else:
        return
    print(f'nova-manage: The command succeeded, but it is not in the audit log: {reason}', file=sys.stderr)


def _words(command: list[str]) -> list[str]:
    """Return the category of a command line, and its action."""
    actions = COMMANDS.get(command[0])
    return command[:1] if callable(actions) else command[:2]


def _database(branch: str) -> dict[str, Callable[..., None]]:
    def opened(conf: cfg.ConfigOpts) -> engine.Database:
        from nova.cloud import assembly
        api_db, cell_db = assembly.open_databases(conf)
        return api_db if branch == 'api' else cell_db

    def sync(conf: cfg.ConfigOpts, local_cell: bool = True) -> None:
        """Bring the schema to the version of this code."""
        from nova.cloud import conversion
        from nova.db import schema as migration
        manage_upgrade.print_copies(conversion.convert_if_due(conf, branch))
        migration.sync(opened(conf), branch)
        if not local_cell:
            manage_cells.sync_cell0(conf)

    def version(conf: cfg.ConfigOpts) -> None:
        """Print the version of the schema."""
        from nova.db import schema as migration
        print(migration.version(opened(conf)) or 'none')
    return {'sync': sync, 'version': version}


def _services(conf: cfg.ConfigOpts,
              topic: str | None = None) -> tuple[list[tuple[db_cells.Cell, Any]], list[db_cells.Cell]]:
    """Return ([(Cell, row)], [cells that are down])."""
    from nova.cloud import assembly
    from nova.db.services import services
    _api_db, cells = assembly.checked_databases(conf)
    found, down = cells.read(lambda conn: services.list(conn, topic=topic))
    return [(cell, row) for cell, listed in found for row in listed], down


def _list_services(conf: cfg.ConfigOpts) -> int:
    """List the services with their states. Exit code 1: a cell is down."""
    from nova.db.services import services
    now = utils.utcnow()
    found, down = _services(conf)
    tables.print_table(('Binary', 'Host', 'Zone', 'Status', 'State', 'Last seen'), [
        (row['binary'], row['host'], row['availability_zone'], 'disabled' if row['disabled'] else 'enabled',
         'up' if services.is_up(row, conf.service_down_time, now) else 'down', utils.isotime(row['last_seen_at']))
        for _cell, row in found])
    return 1 if down else 0


def _list_hosts(conf: cfg.ConfigOpts) -> int:
    """List the compute hosts. Exit code 1: a cell is down."""
    found, down = _services(conf, 'compute')
    tables.print_table(('Host', 'Cell', 'Zone'), [(row['host'], cell.name, row['availability_zone'])
                                                  for cell, row in found])
    return 1 if down else 0


def _assign_vpn(conf: cfg.ConfigOpts) -> None:
    """Assign the category of instance_cat_vpn to servers booted from vpn_image_id before categories existed."""
    from nova.cloud import assembly
    from nova.db.placement import categories
    if not conf.vpn_image_id:
        raise exception.InvalidInput(reason='vpn_image_id is not set.')
    api_db, cells = assembly.checked_databases(conf)
    for cell in cells.all():
        print(f'{cell.name}: {categories.assign(api_db, cell.db, conf.vpn_image_id, conf.instance_cat_vpn)} servers')


def _network_grants(conf: cfg.ConfigOpts, account: str) -> None:
    """Print SQL that grants an account the rights for nova-network. Run it as an administrator after each upgrade."""
    from nova.cloud import assembly
    from nova.db import grants
    for db, kind in zip(assembly.open_databases(conf), (grants.API, grants.CELL)):
        with db.reader() as conn:
            print('\n'.join(grants.script(conn, kind, account)))


def _teardown_network(conf: cfg.ConfigOpts) -> None:
    """Remove the bridges, DHCP servers and filters of this host. The next start of nova-network creates them again."""
    from nova.network import drivers
    drivers.load(conf).teardown()


def _config_sample(conf: cfg.ConfigOpts) -> None:
    """Print nova.conf with every option, its meaning and default."""
    from nova.cmd import samples
    samples.configuration(sys.stdout)


def _policy_sample(conf: cfg.ConfigOpts, service: str) -> None:
    """Print the policy file of an API with every rule, its meaning and default."""
    from nova.cmd import samples
    samples.policy(sys.stdout, service)


def _openapi(conf: cfg.ConfigOpts, microversion: str) -> None:
    """Print the OpenAPI document of the compute API."""
    import json

    from nova.api import app
    from nova.api import openapi
    from nova.api import versions
    document = openapi.document(app.all_routes(), versions.parse(microversion))
    text = json.dumps(document, indent=1)
    tables.print_document(document, lambda: print(text), text.splitlines())


def _completion(conf: cfg.ConfigOpts, category: str | None) -> None:
    """Print the categories, or the actions of a category."""
    actions = COMMANDS if category is None else COMMANDS.get(category, ())
    print(' '.join(() if callable(actions) else actions))


def _optional() -> dict[str, Any]:
    """Return {command: module} of the optional commands. Print and omit modules that cannot be loaded."""
    found = {}
    for name, point in sorted(entry_points.installed(PARTS).items()):
        try:
            found[name] = point.load()
        except Exception as error:
            print(f'nova-manage: the optional command {name} ({point.value}) cannot be loaded: {error!r}',
                  file=sys.stderr)
    return found


OPTIONAL = _optional()
# command -> {action: function(conf, **options)}, or one function; a function's docstring is its help
COMMANDS: dict[str, Any] = {
    'db': {**_database('cell'), **manage_archive.COMMANDS, 'contract': manage_upgrade.contract('cell'),
           'convert': manage_upgrade.convert, 'online_data_migrations': manage_upgrade.online_data_migrations},
    'api_db': {**_database('api'), 'contract': manage_upgrade.contract('api')},
    'cell_v2': manage_cells.COMMANDS,
    'service': {'list': _list_services, **manage_servers.COMMANDS},
    'host': {'list': _list_hosts, **manage_host.COMMANDS},
    'instance_category': {'assign_vpn': _assign_vpn},
    'network': {'create': manage_networks.create, **manage_networks.NETWORK,
                'teardown': _teardown_network, 'grants': _network_grants},
    'fixed': manage_networks.FIXED,
    'floating': manage_networks.FLOATING,
    'config': {'sample': _config_sample},
    'policy': {'sample': _policy_sample},
    'api': {'openapi': _openapi},
    'placement': {'explain': manage_placement.explain},
    'vm': {'list': manage_servers.list_servers, 'evacuate': manage_servers.evacuate, **manage_consoles.COMMANDS,
           **manage_adoption.COMMANDS},
    'live-migration': manage_servers.live_migrate,
    'identity': manage_identity.COMMANDS,
    'image': {**manage_image.COMMANDS, **manage_prepare.COMMANDS},
    'audit': manage_audit.COMMANDS,
    'logs': manage_logs.COMMANDS,
    'quota': manage_quotas.COMMANDS,
    'project': manage_projects.COMMANDS,
    'shell': manage_shell.COMMANDS,
    'state': {**manage_state.COMMANDS, **manage_differences.COMMANDS},
    'tls': manage_tls.COMMANDS,
    **{name: module.COMMANDS for name, module in OPTIONAL.items()},
    'bash-completion': _completion,
}
# function -> {option: keyword arguments of add_argument}
OPTIONS: dict[Any, Any] = {
    _openapi: {'--microversion': {'default': 'latest', 'metavar': '2.N', 'help': 'microversion of the document '
                                                                                 '(default: the newest)'}},
    manage_placement.explain: manage_placement.OPTIONS,
    _policy_sample: {'--service': {'default': 'compute', 'metavar': 'API',
                                   'choices': [service.name for service in policies.SERVICES],
                                   'help': 'compute, image, … (default: %(default)s)'}},
    _completion: {'category': {'metavar': 'CATEGORY', 'nargs': '?', 'help': 'category whose actions to print'}},
    **manage_adoption.OPTIONS, **manage_archive.OPTIONS, **manage_audit.OPTIONS, **manage_cells.OPTIONS,
    **manage_consoles.OPTIONS, **manage_differences.OPTIONS, **manage_host.OPTIONS, **manage_identity.OPTIONS,
    **manage_image.OPTIONS, **manage_logs.OPTIONS, **manage_networks.OPTIONS, **manage_prepare.OPTIONS,
    **manage_projects.OPTIONS, **manage_quotas.OPTIONS, **manage_servers.OPTIONS, **manage_shell.OPTIONS,
    **manage_state.OPTIONS, **manage_tls.OPTIONS,
    **{function: options for module in OPTIONAL.values() for function, options in module.OPTIONS.items()},
    manage_networks.create: manage_networks.CREATE,
    _network_grants: {'account': {'metavar': 'ACCOUNT', 'help': 'database account in the notation of the server: '
                                                                "nova_network@'10.0.0.%%'"}},
    COMMANDS['db']['sync']: manage_cells.SYNC,
    manage_upgrade.online_data_migrations: manage_upgrade.OPTIONS,
}
# functions that write no database: the audit record is added at the end
CHANGE_FILES = frozenset((*manage_identity.CHANGE_FILES, *manage_state.CHANGE_FILES, *(
    function for module in OPTIONAL.values() for function in getattr(module, 'CHANGE_FILES', ()))))
# functions that use the terminal themselves: they have no --format
INTERACTIVE = frozenset((_completion, manage_consoles.console, *manage_shell.COMMANDS.values()))
# function -> {exit code: meaning}; the man page lists the same codes
EXIT_CODES: dict[Any, Any] = {
    **manage_adoption.EXIT_CODES, **manage_archive.EXIT_CODES, **manage_audit.EXIT_CODES, **manage_cells.EXIT_CODES,
    **manage_differences.EXIT_CODES, **manage_projects.EXIT_CODES, **manage_tls.EXIT_CODES,
    **manage_upgrade.EXIT_CODES,
    **{function: codes for module in OPTIONAL.values() for function, codes in module.EXIT_CODES.items()}}


@functools.cache
def command_parser() -> command_line.Parser:
    """Return the parser of the command line, with all commands and their options."""
    parser = command_line.Parser('nova-manage', allow_abbrev=False,
                                 description='Manage database schemas, and access the databases without the API.',
                                 epilog='Options of nova.conf also apply, before or after the command: '
                                        '--config-file, --state-path, …')
    command_line.show_version(parser)
    commands = parser.add_subparsers(metavar='COMMAND')
    for name, actions in COMMANDS.items():
        if callable(actions):
            _describe(commands.add_parser(name, help=actions.__doc__), actions)
            continue
        command = commands.add_parser(name, help=', '.join(actions))
        command.set_defaults(parser=command)
        command_actions = command.add_subparsers(metavar='ACTION')
        for action, function in actions.items():
            _describe(command_actions.add_parser(action, help=function.__doc__), function)
    return parser


def _describe(parser: argparse.ArgumentParser, function: Callable[..., Any]) -> None:
    parser.description = function.__doc__
    parser.set_defaults(function=function)
    if function not in INTERACTIVE:
        command_line.choose_format(parser)
    for name, option in OPTIONS.get(function, {}).items():
        parser.add_argument(name, **option)
