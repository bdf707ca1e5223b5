"""Private parts of oslo.service 4.8: the choice of its backend.

oslo.messaging uses only the base class of its servers from oslo.service. Any class of oslo.service loads a whole
backend: the default one imports eventlet, the other one needs another package. oslo.utils, oslo.messaging and futurist,
which provides the executor of servers, import eventlet, too, if it is installed. That costs 5 MB in each daemon.
"""
from __future__ import annotations

import importlib
import sys
from typing import Any

from oslo_service import backend
from oslo_service.backend import base


class _Parts(dict[str, Any]):
    """Substitutes for the names that modules of oslo.service look up."""

    def __contains__(self, _name: object) -> bool:
        return True

    def __missing__(self, _name: str) -> None:
        return None


def load_messaging_without_eventlet() -> None:
    """Load oslo.messaging for native threads, unless it is loaded.

    Later imports may load eventlet and a backend of oslo.service: os-brick's looping calls do. The classes of
    oslo_service.service stay unavailable; nothing here uses them.
    """
    if {'eventlet', 'oslo_messaging', 'oslo_service.service'} & sys.modules.keys():
        return
    sys.modules['eventlet'] = None               # type: ignore[assignment]
    backend._cached_components = _Parts(ServiceBase=base.ServiceBase)
    try:
        for name in ('oslo_messaging', 'futurist'):
            importlib.import_module(name)
    finally:
        backend._cached_components = None
        del sys.modules['eventlet']
