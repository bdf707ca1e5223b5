"""/os-volumes_boot (until 2.102): an alias of /servers."""
import dataclasses

from nova.api.server_actions import actions as server_actions
from nova.api.server_actions import guest as server_guest
from nova.api.server_actions import moves as server_moves
from nova.api.servers import create as server_create
from nova.api.servers import listing as server_list
from nova.api.server_actions import rebuild as server_rebuild
from nova.api.servers import servers
from nova.api.servers import update as server_update
from nova.api.versions import SINCE
from nova.web.routes import Route

_LAST = SINCE['no_volumes_boot'] - 1
_PATHS = ('/servers', '/servers/detail', '/servers/{id}')
# original actions of the resource, without actions of extensions
_ACTIONS = frozenset({'confirmResize', 'createImage', 'os-start', 'os-stop', 'reboot', 'rebuild', 'resize',
                      'revertResize', 'trigger_crash_dump'})
_MODULES = (server_actions, server_create, server_guest, server_list, server_moves, server_rebuild, server_update,
            servers)


def _is_here(row: Route) -> bool:
    return row.path in _PATHS or row.path == '/servers/{id}/action' and row.action in _ACTIONS


ROUTES = tuple(
    dataclasses.replace(row, path=row.path.replace('/servers', '/os-volumes_boot', 1),
                        until=_LAST if row.until is None else min(row.until, _LAST))
    for module in _MODULES for row in module.ROUTES if _is_here(row) and row.since <= _LAST)
