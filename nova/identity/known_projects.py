"""Whether there is a project of an id that an administrator names: a limit of one that is not there is a mistake."""
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

TIMEOUT_S = 5                # for Keystone to answer; a request of an administrator waits for it
_ID = re.compile(r'[0-9A-Za-z_.-]{1,64}')         # of Keystone's column, as clients write it into paths


class Projects(typing.Protocol):
    def exists(self, ctx: nova_context.RequestContext, project_id: str) -> bool | None:
        """Whether there is a project of this id; None: the identity service does not say."""


class Unknown:
    """There is no identity service to ask."""

    def exists(self, ctx: nova_context.RequestContext, project_id: str) -> bool | None:
        return None


class Embedded:
    """
    :param api_db: has the tables of the embedded identity service
    """

    def __init__(self, api_db: engine.Database) -> None:
        self._api_db = api_db

    def exists(self, ctx: nova_context.RequestContext, project_id: str) -> bool | None:
        if not _ID.fullmatch(project_id):
            return False
        with self._api_db.reader() as conn:
            return directory.get(conn, 'project', id=project_id) is not None


class Keystone:
    """Asks as the caller: who may not look at projects there gets no answer here either.

    :param conf: [keystone_authtoken], which keystonemiddleware registers, is read at each question
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
            LOG.warning('Keystone does not say whether there is a project %s: %s', project_id, type(error).__name__)
            return None
        return {200: True, 404: False}.get(code)
