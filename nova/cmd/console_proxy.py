"""nova-novncproxy, nova-spicehtml5proxy, nova-serialproxy, nova-xvpvncproxy: consoles of guests for their users."""
import functools
import logging
from typing import Any

from oslo_config import cfg

from nova.cmd import common

LOG = logging.getLogger(__name__)

# binary: (kind of proxy, options with its address and port)
PROXIES = {
    'nova-novncproxy': ('vnc', ('vnc', 'novncproxy_host', 'novncproxy_port')),
    'nova-spicehtml5proxy': ('spice', ('spice', 'html5proxy_host', 'html5proxy_port')),
    'nova-serialproxy': ('serial', ('serial_console', 'serialproxy_host', 'serialproxy_port')),
    'nova-xvpvncproxy': (None, ('vnc', 'xvpvncproxy_host', 'xvpvncproxy_port')),
}


def parts(binary: str, conf: cfg.ConfigOpts) -> list[Any]:
    from nova.api import proxy_headers
    from nova.cloud import assembly
    from nova.cloud import consoles
    from nova.console import app
    from nova.console import xvp
    from nova.runtime import tls
    from nova.runtime import wsgi
    from nova.runtime.http import priorities

    kind, (group, host, port) = PROXIES[binary]
    host, port = conf[group][host], conf[group][port]
    certificate = tls.of_files(conf.console, 'console')
    if certificate is None and not tls.is_loopback(host):
        LOG.warning('Console connections to %s do not use TLS: "nova-manage tls issue" creates a certificate '
                    'for [console] cert_file, unless a proxy in front uses TLS.', host)
    if kind is None:
        needed, application = [], xvp.application
        LOG.warning(xvp.SENTENCE.strip())
    else:
        api_db, cells = assembly.checked_databases(conf)
        sessions = consoles.held(conf, api_db, cells, [conf.host])
        url_group, url = app.PAGES[kind][2]
        needed = [assembly.needs(None, api_db, cells), sessions]
        application = app.Application(conf, kind, sessions, app.assets(), conf[url_group][url])
    return [*needed, *([certificate] if certificate else ()), wsgi.Server(
        proxy_headers.of_proxies(conf, application), host, port, plan=priorities.Plan(conf.http.threads, 1),
        trusted=conf.http.trusted_proxies, tls=certificate and certificate.context)]


def _main(binary: str) -> int:
    return common.run(binary, functools.partial(parts, binary))


novnc = functools.partial(_main, 'nova-novncproxy')
spicehtml5 = functools.partial(_main, 'nova-spicehtml5proxy')
serial = functools.partial(_main, 'nova-serialproxy')
xvpvnc = functools.partial(_main, 'nova-xvpvncproxy')
