"""Checks whether a project exists, so that administrators cannot set quotas for mistyped project IDs."""
from __future__ import annotations

import logging
import re
import typing
import urllib.parse

import requests
from oslo_config import cfg

from nova import context as nova_context
from nova.db import engine
from nova.db.identity import directory

LOG = logging.getLogger(__name__)

TIMEOUT_S = 5                # timeout of Keystone in seconds; the administrator's request waits for it
_ID = re.compile(r'[0-9A-Za-z_.-]{1,64}')         # format of IDs in Keystone that is safe in a path


class Projects(typing.Protocol):
    def exists(self, ctx: nova_context.RequestContext, project_id: str) -> bool | None:
        """Return whether a project exists, or None if unknown."""


class Unknown:
    """Lookup without an identity service: the existence of projects is unknown."""

    def exists(self, ctx: nova_context.RequestContext, project_id: str) -> bool | None:
        return None


class Embedded:
    """Lookup in the embedded identity service.

    :param api_db: has the identity tables
    """

    def __init__(self, api_db: engine.Database) -> None:
        self._api_db = api_db

    def exists(self, ctx: nova_context.RequestContext, project_id: str) -> bool | None:
        if not _ID.fullmatch(project_id):
            return False
        with self._api_db.reader() as conn:
            return directory.get(conn, directory.PROJECT, id=project_id) is not None


class Keystone:
    """Lookup in Keystone with the caller's token. The result is None if the caller may not read projects.

    :param conf: [keystone_authtoken], registered by keystonemiddleware, is read in each call
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    def exists(self, ctx: nova_context.RequestContext, project_id: str) -> bool | None:
        if not _ID.fullmatch(project_id) or not project_id.strip('.'):
            return False
        options = self._conf.keystone_authtoken if 'keystone_authtoken' in self._conf else None
        if options is None or not options.www_authenticate_uri or not ctx.auth_token:
            return None
        root = options.www_authenticate_uri.rstrip('/').removesuffix('/v3')
        try:
            code = requests.get(
                f'{root}/v3/projects/{urllib.parse.quote(project_id)}', headers={'X-Auth-Token': ctx.auth_token},
                timeout=TIMEOUT_S, allow_redirects=False,
                verify=False if options.insecure else options.cafile or True).status_code
        except (requests.RequestException, OSError) as error:
            LOG.warning('Cannot check in Keystone whether project %s exists: %s', project_id, type(error).__name__)
            return None
        return {200: True, 404: False}.get(code)
