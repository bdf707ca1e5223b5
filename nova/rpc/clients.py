"""RPC clients of one cell's services, made at their first use."""
from __future__ import annotations

import threading
from typing import Any


class Clients:
    """Clients as attributes: ``clients.compute``, ``clients.conductor``, …, each an rpc.bus.Client.

    :param open: function that returns the bus; called at first use
    :param interfaces: {attribute: Interface}
    :param close: function(bus) that closes it; None: the caller closes it
    """

    def __init__(self, open: Any, interfaces: Any, close: Any = None) -> None:
        self._open, self._interfaces, self._close = open, interfaces, close
        self._bus: Any = None
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        interface = self.__dict__.get('_interfaces', {}).get(name)
        if interface is None:
            raise AttributeError(f'There is no client for {name}.')
        with self._lock:
            if name not in self.__dict__:
                if self._bus is None:
                    self._bus = self._open()
                self.__dict__[name] = self._bus.client(interface)
        return self.__dict__[name]

    def close(self) -> None:
        """Close the bus; nothing can be sent afterwards."""
        with self._lock:
            bus, self._bus = self._bus, None
        if bus is not None and self._close is not None:
            self._close(bus)
