"""HTTP server of nova-api and of the all-in-one, with thread limits for each class of requests."""
from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from oslo_config import cfg

from nova.runtime.http import priorities

if TYPE_CHECKING:
    import ssl

    from nova.cloud.assembly import Application
    from nova.runtime.http.server import Server

# Request classes; the first that matches a request is used. Requests without a match belong to the compute API.
# The APIs ignore further slashes before their path.
FACES = [
    priorities.RequestClass(rb'(GET|HEAD) /healthcheck\Z', 'health'),
    priorities.RequestClass(rb'POST /identity/+v3/(auth/tokens|users/[^/]+/password)', 'login'),
    priorities.RequestClass(rb'[A-Z]+ /identity', 'identity'),
    priorities.RequestClass(rb'GET /image/+v2/images/[^/]*/file', 'downloads'),
    priorities.RequestClass(rb'[A-Z]+ /image', 'image', uploads=True),
    priorities.RequestClass(rb'GET /objectstore/', 'downloads'),
    priorities.RequestClass(rb'[A-Z]+ /objectstore', 'image', uploads=True),
    priorities.RequestClass(rb'[A-Z]+ /(network|volume)', 'network'),
    priorities.RequestClass(rb'GET /.*/os-events\b', 'streams'),
    priorities.RequestClass(rb'GET /console/', 'consoles'),
]


def server(conf: cfg.ConfigOpts, application: Application, drain: float = 0,
           tls: ssl.SSLContext | None = None, listener: socket.socket | None = None) -> Server:
    """Return the HTTP server of nova-api and of the all-in-one without starting it.

    :param tls: context of the connections; None: plain HTTP
    :param listener: the socket of a worker; None: create a socket for the options of [http]
    """
    from nova.runtime import access_log
    from nova.runtime import wsgi

    options = conf.http
    if options.access_log:
        application = access_log.AccessLog(application)
    return wsgi.Server(application, options.listen, options.port, plan=plan(conf), drain=drain,
                       trusted=options.trusted_proxies, body=conf.api.max_request_body_size, tls=tls,
                       listener=listener)


def plan(conf: cfg.ConfigOpts) -> priorities.Plan:
    """Return the thread limits of the request classes.

    Logins and changes of passwords take at most a quarter of the threads, so that slow hashes do not block other
    requests. Health checks and each API have reserved threads.
    """
    threads, streams = conf.http.threads, conf.api.event_streams
    own, quarter = max(1, threads // 8), max(1, threads // 4)
    return priorities.Plan(threads, max(2, threads // 2), [
        priorities.Priority('login', own, quarter), priorities.Priority('identity', own, 2 * quarter),
        priorities.Priority('image', own, 2 * quarter), priorities.Priority('network', own, 2 * quarter),
        priorities.Priority('consoles', own, quarter),
    ], FACES, apart=[
        priorities.Priority('health', 1, 1),
        priorities.Priority('downloads', quarter, quarter, each=max(1, quarter // 2)),
        # two threads more than streams, so that further requests for streams can be refused
        priorities.Priority('streams', streams + 2, streams + 2),
    ])
