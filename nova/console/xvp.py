"""Refusal of Java viewers (xvpvnc), which are no longer supported."""
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.types import WSGIEnvironment

from nova.runtime import wsgi

SENTENCE = ('Consoles for Java viewers (xvpvnc) are no longer supported: their traffic is not encrypted. Use '
            'the console type novnc.\n')


def application(environ: WSGIEnvironment, start_response: Callable[..., Any]) -> Iterable[bytes]:
    """WSGI application: 410 for every request."""
    return wsgi.answer(environ, start_response, '410 Gone', 'text/plain', SENTENCE.encode())
