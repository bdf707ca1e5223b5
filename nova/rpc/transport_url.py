"""Parse transport URLs that name several brokers and contain IPv6 addresses.

oslo.messaging first parses such a URL with urllib, which takes ``u:p@one,u:p@[fd00::1]:5673`` as a single host. Newer
releases of Python, and security updates of older releases, refuse this host as an invalid IPv6 address.
"""
import ipaddress
import re
import urllib.parse

from oslo_config import cfg
import oslo_messaging

# The errors of urllib and oslo.messaging repeat a part of a password that contains a slash or a colon.
MALFORMED = ('it is malformed: check hosts and ports, and percent-encode the characters / ? # : @ , [ and ] of a user '
             'name and password.')
_URL = re.compile(r'([^:/?#]*://)([^/?#]*)(.*)', re.DOTALL)
_HOST = re.compile(r'(?:\[([^\[\]]*)\]|([^\[\]:]*))(?::([0-9]{1,5}))?')


def parse(conf: cfg.ConfigOpts, url: str | None = None) -> oslo_messaging.TransportURL:
    """Parse a transport URL for oslo.messaging.

    :param url: None: ``conf.transport_url``
    :raises oslo_messaging.InvalidTransportURL: the text is no URL; the error omits it, because it has a password
    """
    url = url or conf.transport_url
    parts = _URL.fullmatch(url)
    try:
        if parts is None or not {'[', ']'} & set(parts[2]):
            return oslo_messaging.TransportURL.parse(conf, url)
        parsed = oslo_messaging.TransportURL.parse(conf, parts[1] + parts[3])
        parsed.hosts = [_host(text) for text in parts[2].split(',') if text]
    except (ValueError, oslo_messaging.InvalidTransportURL):
        raise oslo_messaging.InvalidTransportURL(url, MALFORMED) from None
    return parsed


def _host(text: str) -> oslo_messaging.TransportHost:
    """Parse ``user:password@host:port``.

    :raises ValueError: the host is malformed
    """
    user, at, place = text.rpartition('@')
    name, colon, password = user.partition(':')
    found = _HOST.fullmatch(place)
    if found is None:
        raise ValueError
    address, hostname, port = found.groups()
    if address is not None:
        ipaddress.IPv6Address(address)
    return oslo_messaging.TransportHost(
        hostname=hostname if address is None else address, port=None if port is None else int(port),
        username=urllib.parse.unquote(name) if at else None, password=urllib.parse.unquote(password) if colon else None)
