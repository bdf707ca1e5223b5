"""Type of the operations of nova-network in nova.legacy_network.table.SERVED."""
from collections.abc import Callable
from typing import Any, NamedTuple

from nova.web.params import Object


class Operation(NamedTuple):
    """Implementation of one operation; nova/api/documents/removed.py has its policy rule and status codes.

    handler  function(req, **parameters of the path) -> document or None
    body     schema of ``req.body``; None: no body
    """

    handler: Callable[..., Any]
    body: Object | None = None
