"""How the hosts' own networks serve their guests, by the names that operators know.

Other packages add theirs to the group of entry points ``nova.network.managers``: a class that has ``serves_dhcp``.
Networks of projects are between hosts (doc/source/adr/0026-networks-of-projects.rst), by VXLAN or by VLANs.
"""
from __future__ import annotations

from typing import Protocol

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.runtime import entry_points

MANAGERS = 'nova.network.managers'
OPTION = '[network] manager'


class Manager(Protocol):
    """
    serves_dhcp   whether the hosts answer DHCP in their own networks
    project_type  of the networks that projects make: vxlan or vlan; without one vxlan
    """

    serves_dhcp: bool
    project_type: str


class FlatManager:
    """A bridge that is the gateway, and no DHCP: guests have their addresses from the config drive."""

    serves_dhcp = False
    project_type = 'vxlan'

    def __init__(self, conf: ConfigOpts) -> None:
        pass


class FlatDHCPManager(FlatManager):
    """The same with a DHCP server, which knows each guest's address."""

    serves_dhcp = True


class VlanManager(FlatDHCPManager):
    """A VLAN and a bridge for each network of a project, out of [network] vlan_ranges.

    :raises InvalidOption: there are no ranges, or projects share the routing table of the hosts
    """

    project_type = 'vlan'

    def __init__(self, conf: ConfigOpts) -> None:
        super().__init__(conf)
        if not conf.network.vlan_ranges:
            raise exception.InvalidOption(f'{OPTION} = VlanManager needs [network] vlan_ranges, as wire:100:199.')
        if conf.network.project_ranges:
            raise exception.InvalidOption(f'{OPTION} = VlanManager: with [network] project_ranges, networks of '
                                          'projects are in the routing table of the hosts, and no VLANs.')


OWN = {kind.__name__: kind for kind in (FlatManager, FlatDHCPManager, VlanManager)}


def load(conf: ConfigOpts) -> Manager:
    """The manager that [network] manager names.

    :raises InvalidOption: there is none of this name
    """
    name = conf.network.manager
    kind = OWN[name] if name in OWN else entry_points.named(OPTION, name, MANAGERS, sorted(OWN))
    found: Manager = kind(conf)
    return found


def project_type(conf: ConfigOpts) -> str:
    """The type of the networks that projects make."""
    found: str = getattr(load(conf), 'project_type', FlatManager.project_type)
    return found


def check_dhcp(conf: ConfigOpts, enabled: bool) -> None:
    """
    :raises InvalidInput: a subnet of the hosts' own is to have DHCP, and the manager serves none
    """
    if enabled and not load(conf).serves_dhcp:
        raise exception.InvalidInput(reason=f'{OPTION} = {conf.network.manager} serves no DHCP: such a subnet needs '
                                            'enable_dhcp false, and its guests a config drive.')
