"""Prefer: return=representation (RFC 7240): POST /servers answers with what GET /servers/{id} would show next."""
from __future__ import annotations

from collections.abc import Sequence
import dataclasses
import logging

from nova.api import request as api_request
from nova.api.servers import category as server_category
from nova.api.servers import fields as server_fields
from nova.db.servers import instances
from nova.web import preferences
from nova.web.request import Response

LOG = logging.getLogger(__name__)

APPLIED = preferences.APPLIED, 'return=representation'
RULE = 'os_compute_api:servers:show'
_WANTED = preferences.preference('return', 'representation')


def of(req: api_request.Request, rows: Sequence[api_request.Document]) -> list[api_request.Document]:
    """What the request's version shows of servers that it has just stored, without reading them again; nothing where
    the client does not want that, or may not see them. The servers are there and are being built: what fails here is
    left out, for a client that gets an error would make them once more.

    :param rows: as they were stored
    """
    try:
        return _shown(req, rows)
    except Exception:
        LOG.exception('Servers were made, and cannot be shown.')
        return []


def _shown(req: api_request.Request, rows: Sequence[api_request.Document]) -> list[api_request.Document]:
    if not _WANTED.search(req.environ.get(preferences.HEADER, '')) or not req.allows(RULE):
        return []
    if server_category.seen(req) not in (None, rows[0]['category']):
        return []
    build = server_fields.SHOW.builder(req, server_fields.View(req))
    return [build({**instances.BLANK, **row}) for row in rows]


def added(answer: Response, shown: Sequence[api_request.Document]) -> Response:
    """An answer of POST /servers with representations, and with what it has without them: of its server, or of all
    servers of the reservation.
    """
    if not shown:
        return answer
    one = answer.body.get('server')
    body = {**answer.body, 'servers': shown} if one is None else {**answer.body, 'server': {**one, **shown[0]}}
    return dataclasses.replace(answer, body=body, headers=[*answer.headers, APPLIED])
