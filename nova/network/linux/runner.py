"""Run commands on the host from argument lists, with a timeout and exceptions of nova."""
import json
import logging
import subprocess
from typing import TypedDict

from nova import exception

LOG = logging.getLogger(__name__)

TIMEOUT_S = 30
ENVIRONMENT = {'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'LC_ALL': 'C'}


class LinkAddress(TypedDict):
    family: str
    local: str
    prefixlen: int
    scope: str


class LinkData(TypedDict, total=False):
    """Attributes of bridges, VXLAN and VLAN devices."""

    id: int
    local: str
    nf_call_iptables: int
    stp_state: int
    forward_delay: int


class LinkInfo(TypedDict, total=False):
    info_kind: str
    info_data: LinkData


class Link(TypedDict, total=False):
    """A network device as ``ip -json`` prints it.

    ``address`` is the MAC, ``link`` the underlying device, ``master`` the bridge.
    """

    ifname: str
    ifindex: int
    address: str
    mtu: int
    flags: list[str]
    link: str
    master: str
    linkinfo: LinkInfo
    addr_info: list[LinkAddress]


class Runner:
    """Runs commands.

    :param prefix: arguments before every command, such as ``('ip', 'netns', 'exec', name)``
    """

    def __init__(self, prefix: tuple[str, ...] = ()) -> None:
        self.prefix = list(prefix)

    def __call__(self, *arguments: str, stdin: str | None = None, check: bool = True,
                 descriptors: tuple[int, ...] = ()) -> str:
        """Run a command and return its standard output as text, or '' if it failed and ``check`` is False.

        :param descriptors: file descriptors to pass
        :raises NetworkPlumbingError: the command failed, timed out, or does not exist
        """
        command = [*self.prefix, *arguments]
        try:
            done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S,
                                  env=ENVIRONMENT, pass_fds=descriptors)
        except FileNotFoundError:
            raise exception.NetworkPlumbingError(reason=f'{command[0]} is not installed.')
        except subprocess.TimeoutExpired:
            raise exception.NetworkPlumbingError(reason=f'{command[0]} timed out after {TIMEOUT_S} s.')
        if done.returncode:
            if not check:
                return ''
            LOG.error('%s failed (%d): %s', ' '.join(command), done.returncode, done.stderr.strip())
            raise exception.NetworkPlumbingError(reason=f'{arguments[0]} failed: {done.stderr.strip()[:300]}')
        return done.stdout

    def links(self, *arguments: str) -> list[Link]:
        """Return the devices that ``ip -json`` prints, [] if it fails."""
        found: list[Link] = json.loads(self('ip', '-json', *arguments, check=False).strip() or '[]')
        return found

    def link(self, name: str, *options: str, command: str = 'link') -> Link | None:
        """Return a device as ``ip -json link show`` prints it, or None if it does not exist."""
        return next(iter(self.links(*options, command, 'show', 'dev', name)), None)
