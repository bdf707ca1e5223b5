"""Client address and URL of a request behind a reverse proxy.

    [filter:proxy_headers]
    paste.filter_factory = nova.api.proxy_headers:factory

The filter reads ``Forwarded`` (RFC 7239) or ``X-Forwarded-For``, ``-Proto`` and ``-Host``, and ``X-Forwarded-Prefix``.
Clients can forge these headers. The headers are accepted if [oslo_middleware] enable_proxy_headers_parsing is set, and
only from proxies in [http] trusted_proxies. The elements are read from right to left: each trusted proxy adds the
address of its client. Elements left of the first untrusted address come from the client and are ignored.

``Forwarded`` and ``X-Forwarded-*`` must agree: a proxy that writes one of them may pass on the other from a client.
"""
import ipaddress
import logging
import re
from collections.abc import Callable
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from oslo_config import cfg

from nova import exception
from nova.runtime.http import addresses
from nova.web import paste_registry
from nova.web import pipeline

LOG = logging.getLogger(__name__)

MAX_PROXIES = 16             # maximum number of header elements that are evaluated
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
DONE = 'nova.proxy_headers'  # key in the environ of processed requests; an all-in-one has two of these filters
_SCHEMES = ('http', 'https')
_HOST = re.compile(r'(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?')
_PREFIX = re.compile(r'(?:/[A-Za-z0-9._~-]+)+')
_ELEMENT = re.compile(r'(?:[^",]|"[^"]*")+')
_PAIR = re.compile(r'\s*([A-Za-z]+)\s*=\s*(?:"([^"]*)"|([^\s";]*))\s*')
_PORT = re.compile(r'\[([^\]]*)\](?::\d{1,5})?|([\d.]+):\d{1,5}')


def factory(global_conf: dict[str, str], **local: str) -> Callable[[WSGIApplication], pipeline.FilterChain]:
    """Filter factory for Paste."""
    conf = paste_registry.lookup(global_conf['api_services']).conf
    return lambda application: of_proxies(conf, application)


def of_proxies(conf: cfg.ConfigOpts, application: WSGIApplication) -> pipeline.FilterChain:
    """Return an application behind the filter.

    :raises InvalidInput: see trusted()
    """
    return pipeline.prepend(ProxyHeaders(trusted(conf)).read, application)


def trusted(conf: cfg.ConfigOpts) -> tuple[Network, ...]:
    """Return the networks of trusted proxies; () if proxy headers are disabled.

    :raises InvalidInput: the option is empty, malformed, or matches every address
    """
    if not conf.oslo_middleware.enable_proxy_headers_parsing:
        return ()
    if not conf.http.trusted_proxies:
        raise exception.InvalidInput('[oslo_middleware] enable_proxy_headers_parsing requires the addresses of the '
                                     'proxies in [http] trusted_proxies.')
    networks = []
    for text in conf.http.trusted_proxies:
        try:
            networks.append(ipaddress.ip_network(text))
        except ValueError:
            raise exception.InvalidInput(f'[http] trusted_proxies: {text} is not an address or network.') from None
        if not networks[-1].prefixlen:
            raise exception.InvalidInput(f'[http] trusted_proxies: {text} would trust every client.')
    return tuple(networks)


class ProxyHeaders:
    """Filter that sets client address, scheme, host and prefix in the WSGI environ.

    :param networks: result of ``trusted(conf)``
    """

    def __init__(self, networks: tuple[Network, ...] = ()) -> None:
        self._proxies = addresses.Trusted(networks)
        self._warned = False

    def read(self, environ: WSGIEnvironment, start_response: StartResponse | None = None) -> None:
        """Process the headers; a filter of web.pipeline."""
        if DONE not in environ:
            environ[DONE] = True
            environ['REMOTE_ADDR'] = addresses.plain(environ.get('REMOTE_ADDR', ''))
            if environ['REMOTE_ADDR'] in self._proxies:
                self._believe(environ)

    def _believe(self, environ: WSGIEnvironment) -> None:
        headers = [self._outermost(environ['REMOTE_ADDR'], elements)
                   for elements in (_forwarded(environ), _x_forwarded(environ)) if elements]
        if len({said['for'] for said in headers}) > 1:
            if not self._warned:                 # log once, because any client can cause this warning
                self._warned = True
                LOG.warning('Ignoring proxy headers from %s: Forwarded and X-Forwarded-For differ. The proxy '
                            'passes on headers of clients.', environ['REMOTE_ADDR'])
            return
        said_of = {name: {said[name] for said in headers if said.get(name)} for name in ('for', 'proto', 'host')}
        facts = {name: values.pop() for name, values in said_of.items() if len(values) == 1}
        environ['REMOTE_ADDR'] = facts.get('for', environ['REMOTE_ADDR'])
        if facts.get('proto', '').lower() in _SCHEMES:
            environ['wsgi.url_scheme'] = facts['proto'].lower()
        if _HOST.fullmatch(facts.get('host', '')):
            environ['HTTP_HOST'] = facts['host']
        prefix = environ.get('HTTP_X_FORWARDED_PREFIX', '').rstrip('/')
        if _PREFIX.fullmatch(prefix):
            environ['SCRIPT_NAME'] = prefix + environ.get('SCRIPT_NAME', '')

    def _outermost(self, peer: str, elements: list[dict[str, str]]) -> dict[str, str]:
        """Return the element that the outermost trusted proxy has written.

        :param elements: [{'for', 'proto', 'host'}]; the last one is from the nearest proxy
        """
        address, said = peer, elements[-1]
        for element in reversed(elements):
            found = _address(element.get('for', ''))
            if address not in self._proxies or found is None:
                break
            address, said = found, element
        return said | {'for': address}


def _address(text: str) -> str | None:
    """Return the address in a ``for`` parameter without its port; None for 'unknown' or an obfuscated identifier."""
    found = _PORT.fullmatch(text)
    address = addresses.plain((found[1] or found[2] or '') if found else text)
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return None
    return address


def _forwarded(environ: WSGIEnvironment) -> list[dict[str, str]]:
    """Parse the elements of a Forwarded header; empty if it is malformed."""
    header = environ.get('HTTP_FORWARDED', '')
    if header.count('"') % 2:
        return []
    return [{pair[1].lower(): pair[2] or pair[3] or '' for pair in map(_PAIR.fullmatch, element.split(';')) if pair}
            for element in _ELEMENT.findall(header)[-MAX_PROXIES:]]


def _x_forwarded(environ: WSGIEnvironment) -> list[dict[str, str]]:
    """Parse X-Forwarded-*: proxies write one scheme and host for each address, or one for all."""
    lists = {name: [word.strip() for word in environ.get(f'HTTP_X_FORWARDED_{name.upper()}', '').split(',')
                    if word.strip()][-MAX_PROXIES:] for name in ('for', 'proto', 'host')}
    longest = max(map(len, lists.values()))
    padded = {name: (words[:1] if name != 'for' else ['']) * (longest - len(words)) + words
              for name, words in lists.items() if words}
    return [{name: words[place] for name, words in padded.items()} for place in range(longest)]
