"""RPC clients of one cell's services, created at their first use."""
from collections.abc import Callable, Mapping
import threading

from nova.rpc.bus import Bus
from nova.rpc.bus import Client
from nova.rpc.interface import Interface


class Clients:
    """Clients as attributes: ``clients.compute``, ``clients.conductor``, ….

    :param open: function that returns the bus; called at first use
    :param interfaces: {attribute: interface}
    :param close: function that closes the bus; None: the caller closes it
    """

    def __init__(self, open: Callable[[], Bus], interfaces: Mapping[str, Interface],
                 close: Callable[[Bus], None] | None = None) -> None:
        self._open, self._interfaces, self._close = open, interfaces, close
        self._bus: Bus | None = None
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Client:
        interface = self.__dict__.get('_interfaces', {}).get(name)
        if interface is None:
            raise AttributeError(f'There is no client for {name}.')
        with self._lock:
            if name not in self.__dict__:
                if self._bus is None:
                    self._bus = self._open()
                self.__dict__[name] = self._bus.client(interface)
        found: Client = self.__dict__[name]
        return found

    def close(self) -> None:
        """Close the bus; the clients cannot send messages afterwards."""
        with self._lock:
            bus, self._bus = self._bus, None
        if bus is not None and self._close is not None:
            self._close(bus)
