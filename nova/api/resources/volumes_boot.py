"""/os-volumes_boot, until 2.102: a second path to the servers, with the same operations."""
import dataclasses

from nova.api.resources import server_actions
from nova.api.resources import server_create
from nova.api.resources import server_inside
from nova.api.resources import server_list
from nova.api.resources import server_moves
from nova.api.resources import server_update
from nova.api.resources import servers
from nova.api.versions import SINCE

_LAST = SINCE['no_volumes_boot'] - 1
_PATHS = ('/servers', '/servers/detail', '/servers/{id}')
# the actions that it always had; those of extensions never
_ACTIONS = frozenset({'confirmResize', 'createImage', 'os-start', 'os-stop', 'reboot', 'rebuild', 'resize',
                      'revertResize', 'trigger_crash_dump'})
_MODULES = (server_actions, server_create, server_inside, server_list, server_moves, server_update, servers)


def _is_here(row):
    return row.path in _PATHS or row.path == '/servers/{id}/action' and row.action in _ACTIONS


ROUTES = tuple(
    dataclasses.replace(row, path=row.path.replace('/servers', '/os-volumes_boot', 1),
                        until=_LAST if row.until is None else min(row.until, _LAST))
    for module in _MODULES for row in module.ROUTES if _is_here(row) and row.since <= _LAST)
