"""Private parts of oslo.service 4.8: which of its backends is loaded.

oslo.messaging takes the base class of its servers from oslo.service, and nothing else. Any class of oslo.service loads
a backend with all its parts: the default one brings eventlet, the other one needs a package more. oslo.utils,
oslo.messaging and futurist, whose executor its servers have, load eventlet, too, where it is installed. That is
5 MB in each daemon.
"""
from __future__ import annotations

import importlib
import sys
from typing import Any

from oslo_service import backend
from oslo_service.backend import base


class _Parts(dict[str, Any]):
    """What a module of oslo.service gets for the names that it asks for."""

    def __contains__(self, _name: object) -> bool:
        return True

    def __missing__(self, _name: str) -> None:
        return None


def load_messaging_without_eventlet() -> None:
    """Load oslo.messaging for native threads, unless it is there.

    What is imported later may have eventlet, and a backend of oslo.service: os-brick's looping calls do. The classes of
    oslo_service.service stay away, which nothing here has.
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
