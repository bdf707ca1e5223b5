"""Refusal of Java viewers (xvpvnc), which are no longer supported."""
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.types import WSGIEnvironment

SENTENCE = ('Consoles for Java viewers (xvpvnc) are no longer supported: their traffic is not encrypted. Use '
            'the console type novnc.\n')


def application(environ: WSGIEnvironment, start_response: Callable[..., Any]) -> Iterable[bytes]:
    """WSGI application: 410 for every request."""
    body = SENTENCE.encode()
    start_response('410 Gone', [('Content-Type', 'text/plain'), ('Content-Length', str(len(body)))])
    return [] if environ['REQUEST_METHOD'] == 'HEAD' else [body]
