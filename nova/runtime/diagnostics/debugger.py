"""Remote debugging: connect a starting daemon to a debugger that listens in an IDE."""
import importlib.util
import ipaddress
import logging
import socket

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.runtime import concurrency

LOG = logging.getLogger(__name__)
WAIT_S = 5                   # timeout for a connection to the debugger


def connect(conf: ConfigOpts) -> bool:
    """Connect this process to the debugger of [remote_debug]; return False if none is configured.

    :raises InvalidInput: the connection is not permitted, or fails
    """
    host, port = conf.remote_debug.host, conf.remote_debug.port
    if not host:
        return False
    if not (conf.remote_debug.allow_remote or _is_loopback(host)):
        raise exception.InvalidInput(f'remote_debug host {host} is not a loopback address: it could run any code '
                                     'in this process. Set allow_remote in [remote_debug] if that is wanted.')
    if concurrency.model() == 'eventlet':
        raise exception.InvalidInput('A debugger cannot follow green threads: start with NOVA_THREAD_MODEL=native.')
    if importlib.util.find_spec('debugpy') is None:
        raise exception.InvalidInput('remote_debug needs the Python package debugpy, which is not installed.')
    _find(host, port)
    import debugpy
    debugpy.connect((host, port))
    LOG.warning('A debugger at %s port %s controls this process.', host, port)
    return True


def _is_loopback(host: str) -> bool:
    """Return whether an address, or all addresses of a name, are loopback addresses."""
    try:
        found = {str(item[4][0]) for item in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return all(ipaddress.ip_address(address.partition('%')[0]).is_loopback for address in found)


def _find(host: str, port: int) -> None:
    """:raises InvalidInput: nothing listens; the library would end the process, or wait for ever"""
    try:
        socket.create_connection((host, port), WAIT_S).close()
    except OSError as error:
        raise exception.InvalidInput(f'No debugger listens at {host} port {port}: {error.strerror or error}.') from None
