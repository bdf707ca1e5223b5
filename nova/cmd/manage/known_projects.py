"""Lookup of projects that commands name, so that no rows are written for an unknown project."""
from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nova import exception
from nova.cmd import common

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.db import engine

_KEYSTONE_ID = re.compile(r'[0-9a-f]{32}|[0-9a-f]{64}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')
HELP = 'id or name of the project; with Keystone only the id'


def find(conf: cfg.ConfigOpts, api_db: engine.Database, project: str) -> str:
    """Return the id of a project by id or, with the embedded identity service, by name.

    :raises IdentityNotFound, InvalidInput: there is no such project, or Keystone does not use such ids
    """
    from nova.db.identity import directory
    from nova.identity.embedded import directory as embedded
    if conf.identity.backend != 'embedded':
        return _keystone_id(project)
    with api_db.reader() as conn:
        row = directory.get(conn, directory.PROJECT, id=project) or directory.get(
            conn, directory.PROJECT, domain_id=embedded.DOMAIN['id'], name=project)
    if row is None:
        raise exception.IdentityNotFound(noun='project', id=project)
    return row['id']


def look_up(conf: cfg.ConfigOpts, project: str) -> str:
    """Like ``find``, but open the database if it is needed."""
    if conf.identity.backend != 'embedded':
        return _keystone_id(project)
    return find(conf, common.api_db(conf), project)


def _keystone_id(project: str) -> str:
    if not _KEYSTONE_ID.fullmatch(project):
        raise exception.InvalidInput(f'{project} is not the id of a project. Keystone manages the projects: openstack '
                                     f'project show -f value -c id {project}')
    return project
