"""What a proxy in front of the API says of a request: from where it came, and under which address it was asked for.

    [filter:proxy_headers]
    paste.filter_factory = nova.api.proxy_headers:factory

``Forwarded`` (RFC 7239; its first element, which the outermost proxy wrote) or, without it, ``X-Forwarded-Proto``,
``-Host`` and ``-For``; and ``X-Forwarded-Prefix``. From a client these are lies: they are believed only with
[oslo_middleware] enable_proxy_headers_parsing, and the proxy must replace those that come in.
"""
from nova.api import app

_SCHEMES = ('http', 'https')


def factory(global_conf, **local):
    """Paste's filter factory. Where nothing is believed there is nothing to call."""
    believed = app.offered(global_conf).conf.oslo_middleware.enable_proxy_headers_parsing
    return ProxyHeaders if believed else lambda application: application


class ProxyHeaders:
    """Puts what the proxy says where WSGI has what the server knows."""

    def __init__(self, application):
        self._application = application

    def __call__(self, environ, start_response):
        said = _forwarded(environ['HTTP_FORWARDED']) if environ.get('HTTP_FORWARDED') else {
            name: environ.get(f'HTTP_X_FORWARDED_{name.upper()}', '').partition(',')[0].strip()
            for name in ('proto', 'host', 'for')}
        if said.get('proto', '').lower() in _SCHEMES:
            environ['wsgi.url_scheme'] = said['proto'].lower()
        if said.get('host'):
            environ['HTTP_HOST'] = said['host']
        if said.get('for'):
            environ['REMOTE_ADDR'] = said['for']
        prefix = environ.get('HTTP_X_FORWARDED_PREFIX', '').rstrip('/')
        if prefix:
            environ['SCRIPT_NAME'] = prefix + environ.get('SCRIPT_NAME', '')
        return self._application(environ, start_response)


def _forwarded(header):
    """{name: value} of the first element of a Forwarded header."""
    pairs = (pair.partition('=') for pair in header.partition(',')[0].split(';'))
    return {name.strip().lower(): value.strip().strip('"') for name, _, value in pairs}
