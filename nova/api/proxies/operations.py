"""Row type for nova-network operations of the embedded network service (nova_network.SERVED)."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from nova.web.params import Object

LAST = 35                        # last microversion of most operations
ANY = Object(closed=False)       # bodies are validated only if the operations are enabled; otherwise they return 410


class Operation(NamedTuple):
    """One operation.

    handler  function(req, **parameters of the path) -> document or None
    rule     policy rule; None: the handler checks
    code     success code
    body     schema of ``req.body``; None: no body
    last     last microversion that has it
    more     other rules that the handler checks
    """

    handler: Callable[..., Any]
    rule: str | None
    code: int = 200
    body: Object | None = None
    last: int = LAST
    more: tuple[str, ...] = ()
