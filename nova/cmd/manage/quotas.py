"""nova-manage quota: storage limits of projects, and their usage."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova import exception
from nova.cmd import common
from nova.cmd import tables
from nova.cmd.manage import known_projects

if TYPE_CHECKING:
    from oslo_config import cfg

PROJECT = {'metavar': 'PROJECT', 'help': known_projects.HELP}


def show(conf: cfg.ConfigOpts, project: str) -> None:
    """List the quotas and the usage of a project's images, volumes and snapshots."""
    from nova.db.images import images
    from nova.db.projects import storage_quotas
    from nova.db.volumes import volumes
    api_db = common.api_db(conf)
    project = known_projects.find(conf, api_db, project)
    with api_db.reader() as conn:
        limits = storage_quotas.of_project(conn, conf, project)
        size, *counts = images.used(conn, project)
        used = {**dict(zip(storage_quotas.IMAGES, (-(-size // storage_quotas.MIB), *counts), strict=True)),
                **volumes.used(conn, project)}
    tables.print_table(('Resource', 'Limit', 'In use', 'Unit'), [
        (name, limit, used.get(name), storage_quotas.UNITS.get(name)) for name, limit in limits.items()])


def set_limit(conf: cfg.ConfigOpts, project: str, resource: str, limit: int) -> None:
    """Set a quota of a project's images, volumes or snapshots. Existing resources stay."""
    from nova.db.projects import storage_quotas
    api_db = common.api_db(conf)
    if not -1 <= limit < 2 ** 31:
        raise exception.InvalidInput(f'{limit} is not a limit: it must be -1 (no limit) to {2 ** 31 - 1}.')
    if resource not in (*storage_quotas.IMAGES, *storage_quotas.VOLUMES):
        raise exception.InvalidInput(f'{resource} is none of {", ".join(storage_quotas.configured(conf))}.')
    api_db.run(storage_quotas.set_limit, known_projects.find(conf, api_db, project), resource, limit)


def reset(conf: cfg.ConfigOpts, project: str) -> None:
    """Reset the quotas of images, volumes and snapshots of a project to the defaults."""
    from nova.db.projects import storage_quotas
    api_db = common.api_db(conf)
    api_db.run(storage_quotas.reset, known_projects.find(conf, api_db, project))


COMMANDS = {'show': show, 'set': set_limit, 'reset': reset}
OPTIONS = {
    show: {'project': PROJECT},
    set_limit: {'project': PROJECT, 'resource': {'metavar': 'RESOURCE', 'help': 'resource, as in quota show'},
                'limit': {'metavar': 'LIMIT', 'type': int, 'help': 'limit, in the unit that quota show prints; -1 '
                                                                   'for no limit'}},
    reset: {'project': PROJECT},
}
