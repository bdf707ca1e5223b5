"""nova-manage vm console: the serial console of a server in the terminal."""
from __future__ import annotations

import contextlib
import os
import signal
import ssl
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from typing import TYPE_CHECKING

from nova import exception
from nova.cmd.command_line import flag
from nova.cmd.manage import servers

if TYPE_CHECKING:
    from oslo_config import cfg
    from websockets.sync import client

ESCAPE = b'\x1d'                         # Ctrl+], as in telnet and virsh
HELP = ('\r\nCtrl+] and .  leaves, Ctrl+] and r  types stty with the size of this window, Ctrl+] twice  sends it.\r\n')
PIECE = 4096
MICROVERSION = '2.99'


def console(conf: cfg.ConfigOpts, server: str, follow_window: bool) -> None:
    """Connect this terminal to the serial console of a server. Ctrl+] and a period end the connection."""
    from websockets import exceptions as refusals
    from websockets import typing
    from websockets.sync import client

    _uuid, document, authority = servers.post(
        conf, server, 'remote-consoles', {'remote_console': {'protocol': 'serial', 'type': 'serial'}}, MICROVERSION)
    url = document['remote_console']['url']
    context = ssl.create_default_context(cafile=authority) if url.startswith('wss:') else None
    try:
        socket = client.connect(url, subprotocols=[typing.Subprotocol('binary')], compression=None,
                                proxy=None, ssl=context)
    except refusals.InvalidStatus as error:
        raise exception.NovaException((error.response.body or b'The proxy refused the console.').decode().strip())
    except (OSError, refusals.InvalidHandshake) as error:
        raise exception.NovaException(f'The proxy of serial consoles does not answer: {error}')
    with socket, _raw(sys.stdin.fileno()):
        print('Connected. Press Enter for a prompt; Ctrl+] and . disconnects, Ctrl+] and ? shows help.', end='\r\n',
              flush=True)
        _work(socket, sys.stdin.fileno(), sys.stdout.fileno(), follow_window)
    print('\nThe console is closed.')


@contextlib.contextmanager
def _raw(terminal: int) -> Iterator[None]:
    """Set a terminal to pass every key; restore it afterwards."""
    if not os.isatty(terminal):
        yield
        return
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal, termios.TCSADRAIN)         # TCSAFLUSH would lose typed keys
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _work(socket: client.ClientConnection, keys: int, screen: int, follow_window: bool) -> None:
    """Pass bytes between terminal and console until one side closes."""
    from websockets import exceptions as refusals
    over, waker = os.pipe()
    resized, window = os.pipe()
    os.set_blocking(window, False)

    def show() -> None:
        with contextlib.suppress(refusals.ConnectionClosed, OSError):
            for data in socket:
                os.write(screen, data if isinstance(data, bytes) else data.encode())
        os.write(waker, b'.')

    def note(*_signal: object) -> None:
        # The interrupted code may hold the lock of the socket, so a signal handler must not send.
        with contextlib.suppress(BlockingIOError):
            os.write(window, b'.')
    threading.Thread(target=show, daemon=True).start()
    before = signal.signal(signal.SIGWINCH, note) if follow_window else None
    try:
        with contextlib.suppress(refusals.ConnectionClosed):
            _pass_keys(socket, keys, screen, over, resized)
    finally:
        if follow_window:
            signal.signal(signal.SIGWINCH, before)


def _pass_keys(socket: client.ClientConnection, keys: int, screen: int, over: int, resized: int) -> None:
    """Send keys, and the window's size after each change.

    :param over: pipe that gets data when the console is closed
    :param resized: pipe that gets data when the size of the window changes
    """
    import select
    escaped = False
    while True:
        ready = select.select([keys, over, resized], [], [])[0]
        if over in ready:
            return
        if resized in ready:
            os.read(resized, PIECE)
            socket.send(size_line(screen))
        if keys not in ready:
            continue
        if not (data := os.read(keys, PIECE)):
            return
        sent = bytearray()
        for number in data:
            key = bytes([number])
            if not escaped:
                escaped = key == ESCAPE
                sent += b'' if escaped else key
                continue
            escaped = False
            if key in (b'.', b'q'):
                if sent:
                    socket.send(bytes(sent))
                return
            if key == b'r':
                socket.send(size_line(screen))
            elif key == ESCAPE:
                sent += key
            else:
                os.write(screen, HELP.encode())
        if sent:
            socket.send(bytes(sent))


def size_line(screen: int) -> bytes:
    """Return a shell command that sets the window's size in a guest: a serial line cannot transmit the size."""
    columns, rows = os.get_terminal_size(screen)     # the present size; COLUMNS and LINES may be outdated
    return f'stty rows {rows} cols {columns}\r'.encode()


COMMANDS = {'console': console}
OPTIONS = {console: {
    'server': {'metavar': 'SERVER', 'help': 'uuid of the server, or its EC2 id (i- and 17 or 8 digits)'},
    '--follow-window': flag('send stty with the new size whenever the window changes; use it only while a shell in '
                            'the guest waits for a command')}}
