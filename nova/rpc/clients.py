"""The clients of one cell's services, made at their first use."""
from __future__ import annotations

import threading
from typing import Any


class Clients:
    """``clients.compute``, ``clients.conductor``, …: an attribute for each interface, an rpc.bus.Client.

    :param open: function that gives the bus; called at first use
    :param interfaces: {attribute: Interface}
    :param close: function(bus) that ends it; None: the caller ends it
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
        """No message goes out any more."""
        with self._lock:
            bus, self._bus = self._bus, None
        if bus is not None and self._close is not None:
            self._close(bus)
