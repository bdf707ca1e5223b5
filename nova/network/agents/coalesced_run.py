"""Coalesce concurrent calls of a function into one run."""
from __future__ import annotations

from collections.abc import Callable
import threading
from typing import Any


class CoalescedRun:
    """Runs a function once for all waiting callers: a run that starts after a call covers the call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._running, self._count = threading.Lock(), threading.Lock()
        self._asked = self._done = 0

    def __call__(self) -> None:
        with self._count:
            self._asked += 1
            ticket = self._asked
        with self._running:
            if self._done >= ticket:
                return
            with self._count:
                covers = self._asked
            self._function()
            self._done = covers
