"""A debugger of an IDE, which waits for a daemon and is connected to at its start."""
from __future__ import annotations

import importlib.util
import ipaddress
import logging
import socket

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.runtime import concurrency

LOG = logging.getLogger(__name__)
WAIT_S = 5                   # for the debugger to take the connection


def connect(conf: ConfigOpts) -> bool:
    """Hand this process to the debugger of [remote_debug]; False when none is wanted.

    :raises InvalidInput: it may not be, or cannot be
    """
    host, port = conf.remote_debug.host, conf.remote_debug.port
    if not host:
        return False
    if not (conf.remote_debug.allow_remote or _is_loopback(host)):
        raise exception.InvalidInput(f'remote_debug host {host} is not a loopback address: who is there could run any '
                                     'code in this process. Set allow_remote in [remote_debug] if that is wanted.')
    if concurrency.model() == 'eventlet':
        raise exception.InvalidInput('A debugger cannot follow green threads: start with NOVA_THREAD_MODEL=native.')
    if importlib.util.find_spec('debugpy') is None:
        raise exception.InvalidInput('remote_debug needs the Python package debugpy, which is not installed.')
    _find(host, port)
    import debugpy
    debugpy.connect((host, port))
    LOG.warning('A debugger at %s port %s has this process in its hand.', host, port)
    return True


def _is_loopback(host: str) -> bool:
    """Whether an address, or all addresses of a name, lead nowhere but here."""
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
