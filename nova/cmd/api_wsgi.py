"""nova-api-wsgi: the compute API as a WSGI callable, for uWSGI, Granian, gunicorn or mod_wsgi.

    uwsgi --http-socket :8774 --master --processes 4 --threads 1 --wsgi nova.cmd.api_wsgi:application
    granian --interface wsgi --port 8774 --workers 4 nova.cmd.api_wsgi:application
    gunicorn --bind :8774 --workers 4 nova.cmd.api_wsgi:application

The configuration is nova.conf in the directory that OS_NOVA_CONFIG_DIR names, else in the usual places. The file is
read, and the databases are opened, at the first request of each process: a server may fork after loading the module.
"""
from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from nova.runtime import concurrency

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIEnvironment

    from nova.cloud.assembly import Application as Api

concurrency.setup()


class Application:
    """The API of this process, created at the first request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: Api | None = None
        self._owner: int | None = None

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if self._made is None or self._owner != os.getpid():
            with self._lock:
                if self._made is None or self._owner != os.getpid():
                    self._made, self._owner = _make(), os.getpid()
        return self._made(environ, start_response)


def _make() -> Api:
    from nova import conf as nova_conf
    from nova.cmd import api
    from nova.runtime import log

    directory = os.environ.get('OS_NOVA_CONFIG_DIR')
    conf = nova_conf.new(files=[os.path.join(directory, 'nova.conf')] if directory else None)
    log.setup(conf, 'nova-api')
    return api.application(conf)


application = Application()
