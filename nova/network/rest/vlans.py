"""Allocate VLANs of networks. If two requests choose the same VLAN, the unique key rejects one request."""
from __future__ import annotations

import random

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.db.engine import Connection
from nova.db.networks import networks
from nova.network.rest import faults


def ranges(conf: ConfigOpts) -> list[tuple[str, range]]:
    """Return [(physical network, its VLANs)] of [network] vlan_ranges."""
    found = []
    for text in conf.network.vlan_ranges:
        name, first, last = text.split(':')
        found.append((name, range(int(first), int(last) + 1)))
    return found


def chosen(conn: Connection, conf: ConfigOpts, physical: str | None, vlan: int | None) -> tuple[str, int]:
    """Return (physical network, VLAN) of a new network.

    :param physical: requested physical network, or None
    :param vlan: requested VLAN; None: any free VLAN of the ranges
    :raises InvalidInput, VlanIdInUse, NoNetworkAvailable:
    """
    known = [(name, numbers) for name, numbers in ranges(conf) if physical in (None, name)]
    if vlan is not None:
        name = physical or (known[0][0] if known else None)
        if name is None or vlan not in networks.VLANS:
            raise exception.InvalidInput(reason='A network of type vlan needs a physical_network, and a '
                                                f'segmentation_id from 1 to {networks.VLANS[-1]}.')
        if vlan in networks.vlans_on(conn, name):
            raise faults.VlanIdInUse(vlan=vlan, physical=name)
        return name, vlan
    if not known:
        raise exception.InvalidInput(reason='[network] vlan_ranges has no VLANs for this network. Give a '
                                            'physical_network and a segmentation_id.')
    for name, numbers in known:
        free = sorted(set(numbers) - networks.vlans_on(conn, name))
        if free:
            return name, random.choice(free)        # random: concurrent requests rarely collide
    raise faults.NoNetworkAvailable()
