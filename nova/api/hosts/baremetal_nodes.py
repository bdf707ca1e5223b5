"""Bare metal nodes, until 2.35 a proxy to another service, of which a deployment of this one knows none."""
from typing import NoReturn

from nova import exception
from nova.api import request as api_request
from nova.web.routes import Route

_RULE = 'os_compute_api:os-baremetal-nodes:'
LAST = 35


def read(req: api_request.Request, id: str | None = None) -> NoReturn:
    raise exception.Unsupported('No bare metal service belongs to this deployment.')


def write(req: api_request.Request, id: str | None = None) -> NoReturn:
    raise exception.BadRequest('Bare metal nodes are changed through the API of the bare metal service.')


_PATH = '/os-baremetal-nodes'
ROUTES = (
    Route('GET', _PATH, read, policy=_RULE + 'list', until=LAST, errors=(404, 501)),
    Route('GET', _PATH + '/{id}', read, policy=_RULE + 'show', until=LAST, errors=(404, 501)),
    Route('POST', _PATH, write, policy=_RULE + 'list', until=LAST, errors=(400,)),
    Route('DELETE', _PATH + '/{id}', write, policy=_RULE + 'list', until=LAST, errors=(400,)),
    *(Route('POST', _PATH + '/{id}/action', write, policy=_RULE + 'show', until=LAST, errors=(400,), action=name)
      for name in ('add_interface', 'remove_interface')),
)
