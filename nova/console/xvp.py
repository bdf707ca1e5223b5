"""The consoles of old Java viewers, which are not served: what asks for one gets a sentence."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

SENTENCE = ('Consoles for Java viewers (xvpvnc) are not served any more: they sent what is typed in the clear. Ask for '
            'the console type novnc.\n')


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """WSGI: 410 for every request."""
    body = SENTENCE.encode()
    start_response('410 Gone', [('Content-Type', 'text/plain'), ('Content-Length', str(len(body)))])
    return [] if environ['REQUEST_METHOD'] == 'HEAD' else [body]
