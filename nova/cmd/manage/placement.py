"""nova-manage placement explain: how the scheduler would place a server now, as in POST /os-scheduler/explain.

The operation runs in this process with a read-only scheduler: no API and no scheduler have to run.
"""
from __future__ import annotations

import json
from typing import Any, TYPE_CHECKING

from nova import exception
from nova.cmd import tables
from nova.cmd.manage import api_calls as inner

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.api import app
    from nova.context import RequestContext
    from nova.db import engine
    from nova.db.cells import cells as db_cells
    from nova.json_types import Json
    from nova.scheduler.interface import Scheduler

NO_HOST = 3                  # exit code
OPTIONS = {
    '--server': {'metavar': 'UUID', 'help': 'existing server: show whether and where it would be scheduled again'},
    '--file': {'metavar': 'FILE', 'help': 'file with the JSON body of POST /servers; - reads standard input'},
    '--project': {'metavar': 'ID', 'default': 'admin', 'help': 'project of the request'},
    '--seed': {'metavar': 'UUID', 'help': 'uuid that breaks ties; with the uuid of a server the decision is the '
                                          'same as for that server'},
    '--limit': {'metavar': 'N', 'type': int, 'default': 20, 'help': 'maximum number of hosts per list (default: 20)'},
    '--microversion': {'metavar': '2.N', 'default': 'latest', 'help': 'microversion of the body (default: the '
                                                                      'newest)'},
}


def explain(conf: cfg.ConfigOpts, server: str | None, file: str | None, project: str, seed: str | None, limit: int,
            microversion: str) -> int:
    """Show how a server would be placed: what each filter removes, the weights and the choice. Nothing is changed."""
    from nova.cloud import assembly
    if (server is None) == (file is None):
        raise exception.InvalidInput('Specify either --server or --file.')
    body = {'server_id': server} if file is None else _read(file)
    if seed is not None:
        body['seed'] = seed
    api_db, cells = assembly.checked_databases(conf)
    found = inner.ask(_application(conf, api_db, cells), project, 'POST', '/os-scheduler/explain', body, microversion,
                      f'limit={limit}')['explanation']
    tables.print_document(found, lambda: _print(found), [place['host'] for place in found['choices']])
    return 0 if found['choices'] else NO_HOST


def _read(file: str) -> dict[str, Any]:
    try:
        with open(0 if file == '-' else file, encoding='utf-8') as opened:
            body = json.load(opened)
    except ValueError as error:
        raise exception.InvalidInput(f'{file} is not valid JSON: {error}') from None
    if not isinstance(body, dict):
        raise exception.InvalidInput(f'{file} is not a request body: the body must be an object.')
    return body


class _Here:
    """RPC client of the scheduler that calls a Scheduler in this process."""

    def __init__(self, manager: Scheduler) -> None:
        from nova.rpc import interface
        from nova.scheduler import interface as scheduler_interface
        self._explain = interface.methods_of(scheduler_interface.INTERFACE, manager)['explain']

    def explain(self, ctx: RequestContext, **arguments: object) -> Json:
        from nova.rpc import serializer
        return serializer.to_primitive(self._explain(ctx, **arguments))


def _application(conf: cfg.ConfigOpts, api_db: engine.Database, cells: db_cells.Cells) -> app.Application:
    from nova import policy
    from nova.api import app
    from nova.cloud import assembly
    from nova.scheduler import driver

    images = assembly.images(conf, api_db)
    return app.Application(app.Services(
        conf=conf, api_db=api_db, cells=cells, policy=policy.Policy(conf),
        scheduler=_Here(driver.load(conf, api_db, cells)), images=images,
        networks=assembly.networks(conf, api_db), volumes=assembly.volumes(conf, api_db, images)))


def _print(found: dict[str, Any]) -> None:
    amounts = ', '.join(f'{amount} {name}' for name, amount in found['requested'].items())
    print(f'{found["hosts"]} hosts, of which {found["remaining"]} remain. Requested: {amounts}. '
          f'Seed: {found["seed"]}\n')
    removing = [row for row in found['filters'] if row['removed']]
    if removing:
        tables.print_table(('Filter', 'Passed', 'Removed', 'Why'), [
            (row['name'], row['passed'], row['removed'], _why(row)) for row in removing])
        print()
    print(f"{('The other' if removing else 'The')} filters removed no hosts.")
    skipped = [row['name'] for row in found['filters'] if not row['applies']]
    if skipped:
        print('Not applied to a forced host: ' + ', '.join(skipped))
    if found['ranking']:
        names = [name for name in found['weighers'] if any(row['weights'][name] for row in found['ranking'])]
        print()
        tables.print_table(('Host', 'Node', 'Zone', 'Weight', *names), [
            (row['host'], row['node'], row['availability_zone'], f'{row["weight"]:.6g}',
             *(f'{row["weights"][name]:.6g}' for name in names)) for row in found['ranking']])
    print()
    for place in found['choices']:
        print(f'Choice: {place["host"]} ({place["node"]}) in zone {place["availability_zone"]}')
    if found['reason']:
        print(f'No valid host: {found["reason"]}')
        for miss in found['nearest']:
            print(f'Nearest: {miss["host"]} {" and ".join(lack["reason"] for lack in miss["failed_filters"])}')


def _why(row: dict[str, Any]) -> str:
    named = ', '.join(host['host'] for host in row['hosts'])
    return f'{row["reason"]}: {named}' + (', …' if row['removed'] > len(row['hosts']) else '')
