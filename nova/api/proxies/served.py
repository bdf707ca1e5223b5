"""Rows of what the embedded network service does in place of one within the compute service (nova_network.SERVED)."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from nova.web.params import Object

LAST = 35                        # the last microversion of most of them
ANY = Object(closed=False)       # bodies are looked at where the option is on: without it everything is gone


class Operation(NamedTuple):
    """
    handler  function(req, **parts of the path) -> document or None
    rule     who may; None: the handler knows
    code     of success
    body     what it gets in ``req.body``; None: nothing
    last     the last microversion that has it
    more     rules that the handler asks besides
    """

    handler: Callable[..., Any]
    rule: str | None
    code: int = 200
    body: Object | None = None
    last: int = LAST
    more: tuple[str, ...] = ()
