"""Assembly of the console proxies: one proxy in a daemon, or all proxies below one address."""
from collections.abc import Iterable
import os
import pathlib

from oslo_config import cfg

from nova.console import app
from nova.console import relay
from nova.console import sessions
from nova.console import xvp
from nova import exception
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.identity import directory
from nova.db.tables.rows import ConsoleAuthTokensRow
from nova.identity import tokens
from nova.identity.embedded import token_service
from nova.runtime import host_identity
from nova.runtime import state_directory
from nova.runtime import wsgi

# path below /console of the all-in-one -> (kind of proxy, file name at the end of the console's URL)
PLACES = {'novnc': ('vnc', 'vnc_auto.html'), 'spice': ('spice', 'spice_auto.html'), 'serial': ('serial', '')}


def held(conf: cfg.ConfigOpts, api_db: engine.Database, cells: db_cells.Cells,
         local: Iterable[str]) -> sessions.Sessions:
    """Create the console sessions of a process; the caller starts and stops them.

    :param local: names of the compute hosts of this machine
    """
    def gone(projects: set[str]) -> set[str]:
        """Return deleted or disabled projects; empty with an external identity service, which sends no notifications.

        With an external service, a console ends when its token expires.
        """
        if not projects or conf.identity.backend != 'embedded':
            return set()
        with api_db.reader() as conn:
            return projects - directory.enabled_projects(conn, projects)

    def void(rows: list[ConsoleAuthTokensRow]) -> set[str]:
        if conf.identity.backend != 'embedded' or not any(row['user_token_id'] for row in rows):
            return set()
        with api_db.reader() as conn:
            return _void(conn, rows)
    directory_of_guests = pathlib.Path(os.path.realpath(host_identity.state_path(conf))) / state_directory.INSTANCES
    return sessions.Sessions(conf, relay.Relay(), cells, gone, void, local, directory_of_guests)


def _void(conn: engine.Connection, rows: list[ConsoleAuthTokensRow]) -> set[str]:
    """Return the token_hash of each console token that is void: its user token is invalid, or the user lost a role."""
    good: dict[str, bool] = {}
    for text in {row['user_claims'] for row in rows if row['user_claims']}:
        claims, roles = tokens.of_text(text)
        try:
            good[text] = roles <= set(token_service.load(conn, claims).roles)
        except exception.Unauthorized:
            good[text] = False
    ended = directory.ended_tokens(conn, {row['user_token_id']: (row['user_id'] or '', row['created_at'])
                                          for row in rows if row['user_token_id'] and not row['user_claims']})
    return {row['token_hash'] for row in rows
            if not good.get(row['user_claims'] or '', True) or row['user_token_id'] in ended}


def announce(conf: cfg.ConfigOpts, url: str) -> None:
    """Set the console URLs of an all-in-one, unless the operator has configured other URLs.

    :param url: URL of the all-in-one
    """
    for place, (kind, page) in PLACES.items():
        group, option = app.PAGES[kind][2]
        if _is_default(conf, group, option) and (kind != 'spice' or conf.spice.enabled):
            base = url.replace('http', 'ws', 1) if kind == 'serial' else url
            conf.set_override(option, f'{base}/console/{place}/{page}', group=group)
    if _is_default(conf, 'serial_console', 'enabled'):
        conf.set_override('enabled', True, group='serial_console')


def mounts(conf: cfg.ConfigOpts, found: sessions.Sessions, url: str) -> list[wsgi.Mount]:
    """Return the mounts of all proxies below /console."""
    served = app.assets()
    made = [wsgi.Mount(f'/console/{place}', app.Application(conf, kind, found, served, url))
            for place, (kind, _page) in PLACES.items()]
    return [*made, wsgi.Mount('/console/xvpvnc', xvp.application)]


def _is_default(conf: cfg.ConfigOpts, group: str, option: str) -> bool:
    place = conf.get_location(option, group)
    return place is None or place.location in (cfg.Locations.opt_default, cfg.Locations.set_default)
