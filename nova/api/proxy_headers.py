"""What a proxy in front of a face says of a request: from where it came, and to which address it was sent.

    [filter:proxy_headers]
    paste.filter_factory = nova.api.proxy_headers:factory

``Forwarded`` (RFC 7239) or ``X-Forwarded-For``, ``-Proto`` and ``-Host``; and ``X-Forwarded-Prefix``. From a client
these are lies. They are believed with [oslo_middleware] enable_proxy_headers_parsing, from the proxies that [http]
trusted_proxies names, and are read from the right: each trusted proxy has written the element of its own client,
and what stands left of the first address that is no such proxy is the client's own words.

Where both forms are there they must agree: a proxy that writes one of them may pass on the other as a client sent it.
"""
from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Callable
from typing import Any

from oslo_config import cfg

from nova import exception
from nova.runtime.http import addresses
from nova.web import bodies
from nova.web import paste
from nova.web import pipeline

LOG = logging.getLogger(__name__)

MAX_PROXIES = 16             # elements that are looked at
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
DONE = 'nova.proxy_headers'  # in the environ of a request whose address is exact: an all-in-one has two of these
_SCHEMES = ('http', 'https')
_HOST = re.compile(r'(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?')
_PREFIX = re.compile(r'(?:/[A-Za-z0-9._~-]+)+')
_ELEMENT = re.compile(r'(?:[^",]|"[^"]*")+')
_PAIR = re.compile(r'\s*([A-Za-z]+)\s*=\s*(?:"([^"]*)"|([^\s";]*))\s*')
_PORT = re.compile(r'\[([^\]]*)\](?::\d{1,5})?|([\d.]+):\d{1,5}')


def factory(global_conf: dict[str, str], **local: str) -> Callable[[Any], pipeline.Steps]:
    """Paste's filter factory."""
    conf = paste.offered(global_conf['api_services']).conf
    return lambda application: pipeline.before(ProxyHeaders(trusted(conf)).read, application)


def trusted(conf: cfg.ConfigOpts) -> tuple[Network, ...]:
    """The networks of the proxies that are believed; () when none is.

    :raises InvalidInput: none is named, one is no network, or it is everybody
    """
    if not conf.oslo_middleware.enable_proxy_headers_parsing:
        return ()
    if not conf.http.trusted_proxies:
        raise exception.InvalidInput('[oslo_middleware] enable_proxy_headers_parsing is set: name the proxies that are '
                                     'believed in [http] trusted_proxies.')
    networks = []
    for text in conf.http.trusted_proxies:
        try:
            networks.append(ipaddress.ip_network(text))
        except ValueError:
            raise exception.InvalidInput(f'[http] trusted_proxies: {text} is no address and no network.') from None
        if not networks[-1].prefixlen:
            raise exception.InvalidInput(f'[http] trusted_proxies: {text} is everybody.')
    return tuple(networks)


class ProxyHeaders:
    """Puts the exact address of the client, and what trusted proxies say, where WSGI has what the server knows.

    :param networks: ``trusted(conf)``
    """

    def __init__(self, networks: tuple[Network, ...] = ()) -> None:
        self._proxies = addresses.Trusted(networks)
        self._warned = False

    def read(self, environ: bodies.Environ, start_response: Any = None) -> None:
        """A step of web.pipeline."""
        if DONE not in environ:
            environ[DONE] = True
            environ['REMOTE_ADDR'] = addresses.plain(environ.get('REMOTE_ADDR', ''))
            if environ['REMOTE_ADDR'] in self._proxies:
                self._believe(environ)

    def _believe(self, environ: bodies.Environ) -> None:
        headers = [self._outermost(environ['REMOTE_ADDR'], elements)
                   for elements in (_forwarded(environ), _x_forwarded(environ)) if elements]
        if len({said['for'] for said in headers}) > 1:
            if not self._warned:                 # once: any client can make it happen
                self._warned = True
                LOG.warning('The proxy at %s lets through what a client says of itself: Forwarded and X-Forwarded-For '
                            'differ, and neither is believed.', environ['REMOTE_ADDR'])
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
        """What the outermost trusted proxy has written.

        :param elements: [{'for', 'proto', 'host'}], the nearest proxy's last
        """
        address, said = peer, elements[-1]
        for element in reversed(elements):
            found = _address(element.get('for', ''))
            if address not in self._proxies or found is None:
                break
            address, said = found, element
        return said | {'for': address}


def _address(text: str) -> str | None:
    """The address of a ``for``, without its port; None for what names none, as unknown or _hidden."""
    found = _PORT.fullmatch(text)
    address = addresses.plain((found[1] or found[2] or '') if found else text)
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return None
    return address


def _forwarded(environ: bodies.Environ) -> list[dict[str, str]]:
    """The elements of a Forwarded header; none of one that is not of its form."""
    header = environ.get('HTTP_FORWARDED', '')
    if header.count('"') % 2:
        return []
    return [{pair[1].lower(): pair[2] or pair[3] or '' for pair in map(_PAIR.fullmatch, element.split(';')) if pair}
            for element in _ELEMENT.findall(header)[-MAX_PROXIES:]]


def _x_forwarded(environ: bodies.Environ) -> list[dict[str, str]]:
    """The same of X-Forwarded-*: proxies write as many schemes and hosts as addresses, or one that is good for all."""
    lists = {name: [word.strip() for word in environ.get(f'HTTP_X_FORWARDED_{name.upper()}', '').split(',')
                    if word.strip()][-MAX_PROXIES:] for name in ('for', 'proto', 'host')}
    longest = max(map(len, lists.values()))
    padded = {name: (words[:1] if name != 'for' else ['']) * (longest - len(words)) + words
              for name, words in lists.items() if words}
    return [{name: words[place] for name, words in padded.items()} for place in range(longest)]
