"""Addresses of the libvirt daemons of this host and of others, for migrations and for transfers of files."""
from __future__ import annotations

import re

from oslo_config import cfg

from nova import exception

ADDRESS = re.compile(r'[0-9A-Za-z][0-9A-Za-z.:-]{0,254}\Z')


class LibvirtAddresses:
    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    @property
    def own(self) -> str:
        """Address of this host's libvirt for other hosts."""
        return str(self._conf.libvirt.live_migration_inbound_addr or self._conf.my_ip)

    def uri_of(self, address: str) -> str:
        """Return the URI of the libvirt of another host.

        :param address: sent by that host; it is checked, because libvirt runs commands that a URI contains
        :raises VirtError: the value is not an address
        """
        if not isinstance(address, str) or not ADDRESS.match(address):
            raise exception.VirtError(operation='reach the other host', reason='what it says is its address is none')
        return str(self._conf.libvirt.live_migration_uri).replace('%s', f'[{address}]' if ':' in address else address)
