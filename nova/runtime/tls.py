"""TLS of a listener: the configured choice of its certificate, and the renewal while the listener serves."""
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

DIRECTORY = 'tls'             # below the state directory
NAME = 'api'                  # name of the certificate that an all-in-one makes for its listener
CHECK_INTERVAL_S = 6 * 3600             # seconds between two checks for changed files or a due renewal


@final
class Tls:
    """TLS of one listener; a part of a process (see nova.runtime.service.Process).

    :param pair: function that returns the files, and renews them when due
    :ivar context: for the sockets of the listener
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
        """Use the present files; keep the previous ones if they cannot be used."""
        try:
            certificates.load(self.context, self._pair())
        except exception.InvalidInput as error:
            LOG.error('The certificate is not renewed, the previous one is kept: %s', error)

    def _look(self) -> None:
        while not self._stopping.wait(CHECK_INTERVAL_S):
            self.reload()


def is_loopback(address: str) -> bool:
    """Return whether only this host can reach a listen address."""
    found = _address(address)
    return found.is_loopback if found else address == 'localhost'


def wanted(conf: ConfigOpts) -> bool:
    """Return whether [http] tls, cert_file and listen select TLS for the listener of an all-in-one."""
    options = conf.http
    if options.tls == 'auto':
        return bool(options.cert_file) or not is_loopback(options.listen)
    return options.tls == 'on'


def given(conf: ConfigOpts) -> Tls | None:
    """Return TLS with the operator's own files; None if the configuration names none.

    :raises InvalidInput: only one of the two files is configured, or they are unusable
    """
    options = conf.http
    if options.tls == 'off' and bool(options.cert_file) == bool(options.key_file):
        return None
    return of_files(options, 'http')


def of_files(options: cfg.ConfigOpts.GroupAttr, group: str) -> Tls | None:
    """Return TLS with cert_file and key_file of an option group; None if it names none.

    :raises InvalidInput: as ``given``
    """
    if bool(options.cert_file) != bool(options.key_file):
        raise exception.InvalidInput(reason=f'set both cert_file and key_file in [{group}]: only one of them is set.')
    if not options.cert_file:
        return None
    pair = certificates.Pair(pathlib.Path(options.cert_file), pathlib.Path(options.key_file))
    return Tls(lambda: pair)


def of_daemon(conf: ConfigOpts) -> Tls | None:
    """Return the TLS of a nova-api with the operator's certificate, or None for plain HTTP, with a warning if remote.

    :raises InvalidInput: [http] tls is on, and there are no files
    """
    made = given(conf)
    if made is None and conf.http.tls == 'on':
        raise exception.InvalidInput(reason='tls in [http] is on: set cert_file and key_file; nova-manage tls issue '
                                            'makes them.')
    if made is None and conf.http.tls == 'auto' and not is_loopback(conf.http.listen):
        LOG.warning('The API listens on %s without TLS. Set cert_file and key_file in [http], or tls = off where a '
                    'proxy speaks TLS and the network behind it is its own.', conf.http.listen)
    return made


def of_cloud(conf: ConfigOpts, state_path: pathlib.Path) -> tuple[Tls | None, pathlib.Path | None]:
    """Return (TLS of the all-in-one or None, the CA file that clients have to trust or None).

    :raises InvalidInput: the files cannot be used, or certificates cannot be made
    """
    made = given(conf)
    if made is not None or not wanted(conf):
        return made, None
    authority = own_authority(state_path)
    return Tls(lambda: authority.pair(NAME, hosts(conf))), authority.trusted


def own_authority(state_path: pathlib.Path) -> certificates.Authority:
    """Return the authority of the all-in-one with this state directory."""
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
