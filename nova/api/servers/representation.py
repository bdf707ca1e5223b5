"""Prefer: return=representation (RFC 7240): POST /servers returns the body of GET /servers/{id}."""
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
    """Return representations of new servers; [] if the request does not ask for them or the caller may not see them.

    Errors are logged and ignored: the servers exist, and an error response would make the client create them again.

    :param rows: rows as stored; they are not read again
    """
    try:
        return _shown(req, rows)
    except Exception:
        LOG.exception('Cannot show new servers; the response omits their representation.')
        return []


def _shown(req: api_request.Request, rows: Sequence[api_request.Document]) -> list[api_request.Document]:
    if not _WANTED.search(req.environ.get(preferences.HEADER, '')) or not req.allows(RULE):
        return []
    if server_category.visible_category(req) not in (None, rows[0]['category']):
        return []
    build = server_fields.SHOW.builder(req, server_fields.View(req))
    return [build({**instances.BLANK, **row}) for row in rows]


def added(answer: Response, shown: Sequence[api_request.Document]) -> Response:
    """Merge the representation into ``server`` of a POST /servers response.

    If the response has only a reservation ID, add the representations as ``servers``.
    """
    if not shown:
        return answer
    assert isinstance(answer.body, dict)
    one = answer.body.get('server')
    body = {**answer.body, 'servers': shown} if one is None else {**answer.body, 'server': {**one, **shown[0]}}
    return dataclasses.replace(answer, body=body, headers=[*answer.headers, APPLIED], brief=answer.body)
