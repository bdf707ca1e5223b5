"""Metadata relay of this host (nova/network/relay.py): its process and listening sockets."""
import json
import logging
import sys

from nova.json_types import Json
from nova.network import relay
from nova.network.linux import process
from nova.network.linux import runner
from nova.network.linux.namespaces import Namespace

LOG = logging.getLogger(__name__)

USER = 'nobody'                  # user of the relay process; dnsmasq runs as the same user
LOCAL = f'{relay.ADDRESS}/32'
MAX_AUTHORITY = relay.MAX_CONTROL_MESSAGE - (4 << 10)        # bytes of the CA certificate in JSON
# Program that creates a listening socket, in the namespace if there is one, and passes it to the relay.
_LISTEN = (
    'import socket, sys\n'
    'control = socket.socket(fileno=int(sys.argv[1]))\n'
    # reuse_port: the relay that an earlier process of the service has started may still listen
    'listener = socket.create_server((sys.argv[3], int(sys.argv[4])), reuse_port=True)\n'
    'socket.send_fds(control, [sys.argv[2].encode()], [listener.fileno()])\n')


class MetadataRelay:
    """The relay of one host.

    process  ControlledProcess

    :param run: a Runner of the host
    """

    def __init__(self, run: runner.Runner) -> None:
        self._run = run
        self.process = process.ControlledProcess(run, 'metadata relay', ('-I', relay.__file__), (USER,))
        self._settings: list[Json] | None = None
        # {(kind, id): address and port; None: the namespace may be a new one}
        self._served: dict[tuple[str, str], tuple[str, int] | None] = {}

    def configure(self, host: str, key: str, upstream: tuple[str, int] | None, authority: str) -> bool:
        """Set the destination and signing key of requests. If the destination or the key is missing, stop the relay.

        Return True if a new process was started, which has no sockets yet.

        :param key: signing key in hexadecimal digits
        :param authority: CA certificate of the service, PEM; '' for plain HTTP
        """
        wanted: list[Json] | None = [host, key, *upstream, authority] if key and upstream else None
        if wanted is None:
            self.stop()
            self._settings = None
            return False
        if (code := self.process.ended()) is not None:
            LOG.warning('The metadata relay exited with code %s and is restarted', code)
            self.stop()
        started = not self.process.is_alive()
        if started:
            self.process.start()
        elif wanted == self._settings:
            return False
        self._settings = wanted if self.process.send({'settings': wanted}) else None
        return started

    def serve(self, space: Namespace, kind: str, ident: str, made: bool) -> None:
        """Listen in a namespace. All clients in the namespace belong to this network or router.

        :param made: the namespace is new
        """
        if self.process.control is None or self._served.get((kind, ident)) and not made:
            return
        if not space.run('ip', '-json', 'address', 'show', 'dev', 'lo', 'to', LOCAL, check=False).count(relay.ADDRESS):
            space.run('ip', 'address', 'add', LOCAL, 'dev', 'lo')
        self._listen(space.run, kind, ident, relay.ADDRESS, relay.PORT)

    def serve_at(self, ident: str, address: str, port: int) -> None:
        """Listen at an address of the host, to which filters redirect the metadata requests of a flat network."""
        if self.process.control is not None and self._served.get(('network', ident)) != (address, port):
            self._listen(self._run, 'network', ident, address, port)

    def _listen(self, run: runner.Runner, kind: str, ident: str, address: str, port: int) -> None:
        assert self.process.control is not None
        number = self.process.control.fileno()
        run(sys.executable, '-I', '-S', '-c', _LISTEN, str(number), json.dumps({'serve': [kind, ident]}), address,
            str(port), descriptors=(number,))
        self._served[kind, ident] = address, port

    def distrust(self, ident: str) -> None:
        """Let the next call of ``serve`` listen again, because the set-up of a network or router failed."""
        self._served |= {key: None for key in self._served if key[1] == ident}

    def retain(self, names: set[tuple[str, str]]) -> None:
        """Stop serving networks and routers that are not in ``names``, a set of (kind, id)."""
        for kind, ident in self._served.keys() - names:
            self.process.send({'drop': [kind, ident]})
            del self._served[kind, ident]

    def stop(self) -> None:
        """Stop the process and all its sockets."""
        self.process.stop()
        self._served = {}
