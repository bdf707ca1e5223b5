"""The action restore."""
from oslo_config import cfg

from nova import actions
from nova.api import request as api_request
from nova.api.server_actions import actions as server_actions
from nova.db import engine
from nova.db.projects import quotas
from nova.db.servers import mappings
from nova.db.servers import tasks
from nova.db.tables.rows import InstancesRow

RESTORE = actions.ACTIONS['restore']


def restore(req: api_request.Request, id: str) -> None:
    """Restore a server after checking the quota, which does not count soft-deleted servers."""
    cell, _row = server_actions.find(req, id, RESTORE)
    # begin the action first, so that only one of two concurrent requests changes the quota usage
    row = server_actions.begin(req, cell, id, RESTORE)
    try:
        req.services.api_db.run(_use_again, req.services.conf, row)
    except Exception:
        cell.db.run(tasks.cancel, req.context, id, RESTORE)
        raise
    server_actions.cast(req, cell, row, RESTORE)


def _use_again(conn: engine.Connection, conf: cfg.ConfigOpts, row: InstancesRow) -> None:
    """Count the server in the quota again.

    :raises QuotaExceeded: the quota has no room
    """
    project_id, flavor = row['project_id'], row['flavor']
    quotas.lock(conn, project_id)
    if not mappings.is_queued(conn, row['uuid']):
        return
    quotas.check_and_use(conn, quotas.limits_of(conn, conf, project_id), project_id, row['user_id'], 1,
                         flavor['vcpus'], flavor['memory_mb'])
    mappings.set_queued(conn, row['uuid'], False)


ROUTES = (
    server_actions.route('restore', restore, errors=(401, 403, 404, 409)),
)
