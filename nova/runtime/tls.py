"""TLS of a listener: selection of the certificate by the configuration, and its renewal while the listener serves."""
from collections.abc import Callable
import ipaddress
import logging
import pathlib
import ssl
import threading
from typing import final
import urllib.parse

from oslo_config import cfg
from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.runtime import certificates
from nova.runtime import concurrency

LOG = logging.getLogger(__name__)

DIRECTORY = 'tls'             # directory of the certificate authority, below the state directory
NAME = 'api'                  # name of the certificate that an all-in-one issues for its listener
CHECK_INTERVAL_S = 6 * 3600             # seconds between two checks for changed files or a due renewal


@final
class Tls:
    """TLS of one listener; a part of a process (see nova.runtime.service.Process).

    :param pair: function that returns the files of the certificate and the key, and renews them when due
    :ivar context: TLS context for the sockets of the listener
    :raises InvalidInput: the files are not a certificate with its key
    """

    def __init__(self, pair: Callable[[], certificates.Pair]) -> None:
        self._pair = pair
        self.context: ssl.SSLContext = certificates.server_context(pair())
        self._stopping = threading.Event()

    def start(self) -> None:
        concurrency.spawn('certificates', self._look)

    def stop(self, timeout: float = 0) -> None:
        self._stopping.set()

    def reload(self) -> None:
        """Load the files again; keep the previous certificate if they cannot be used."""
        try:
            certificates.load(self.context, self._pair())
        except (exception.InvalidInput, OSError) as error:
            LOG.error('The certificate is not renewed, the previous one is kept: %s', error)

    def _look(self) -> None:
        while not self._stopping.wait(CHECK_INTERVAL_S):
            try:
                self.reload()
            except Exception:
                LOG.exception('The certificate is checked again later')


def is_loopback(address: str) -> bool:
    """Return whether an address to listen on can be reached only from this host."""
    found = _address(address)
    return found.is_loopback if found else address == 'localhost'


def wanted(conf: ConfigOpts) -> bool:
    """Return whether the options tls, cert_file and listen of [http] select TLS for an all-in-one."""
    options = conf.http
    if options.tls == 'auto':
        return bool(options.cert_file) or not is_loopback(options.listen)
    return options.tls == 'on'


def given(conf: ConfigOpts) -> Tls | None:
    """Return Tls with the files of the operator, or None if the configuration names no files.

    :raises InvalidInput: only one of the two files is configured, or the files cannot be used
    """
    options = conf.http
    if options.tls == 'off' and bool(options.cert_file) == bool(options.key_file):
        return None
    return of_files(options, 'http')


def of_files(options: cfg.ConfigOpts.GroupAttr, group: str) -> Tls | None:
    """Return Tls with cert_file and key_file of an option group, or None if they are not set.

    :raises InvalidInput: as ``given``
    """
    if bool(options.cert_file) != bool(options.key_file):
        raise exception.InvalidInput(reason=f'set both cert_file and key_file in [{group}]: only one of them is set.')
    if not options.cert_file:
        return None
    pair = certificates.Pair(pathlib.Path(options.cert_file), pathlib.Path(options.key_file))
    return Tls(lambda: pair)


def of_daemon(conf: ConfigOpts) -> Tls | None:
    """Return Tls of nova-api, or None for plain HTTP; warn if the listen address is not loopback.

    :raises InvalidInput: [http] tls is on, and no files are configured
    """
    made = given(conf)
    if made is None and conf.http.tls == 'on':
        raise exception.InvalidInput(reason='tls in [http] is on: set cert_file and key_file; nova-manage tls issue '
                                            'makes them.')
    if made is None and conf.http.tls == 'auto' and not is_loopback(conf.http.listen):
        LOG.warning('The API listens on %s without TLS. Set cert_file and key_file in [http], or tls = off if a '
                    'proxy terminates TLS and only the proxy can reach this address.', conf.http.listen)
    return made


def of_cloud(conf: ConfigOpts, state_path: pathlib.Path) -> tuple[Tls | None, pathlib.Path | None]:
    """Return (Tls of the all-in-one or None, CA file that clients must trust or None).

    :raises InvalidInput: the files cannot be used, or certificates cannot be issued
    """
    made = given(conf)
    if made is not None or not wanted(conf):
        return made, None
    authority = own_authority(state_path)
    return Tls(lambda: authority.pair(NAME, hosts(conf))), authority.trusted


def own_authority(state_path: pathlib.Path) -> certificates.Authority:
    """Return the certificate authority of the all-in-one with this state directory."""
    return certificates.Authority(state_path / DIRECTORY)


def hosts(conf: ConfigOpts) -> list[str]:
    """Return the names and addresses by which clients may reach the all-in-one."""
    listen, public = conf.http.listen, conf.http.public_url
    found, address = ['localhost', '127.0.0.1', '::1', conf.my_ip], _address(listen)
    if address is None or not address.is_unspecified:
        found.append(listen)
    if public:
        found.append(urllib.parse.urlsplit(public).hostname)
    return list(dict.fromkeys(host.lower() for host in found if host))


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
