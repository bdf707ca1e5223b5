"""Network managers of the hosts' flat networks, with the class names of nova-network.

Other packages add classes with ``serves_dhcp`` to the entry point group ``nova.network.managers``. Project networks
(ADR 0026) are VXLAN overlays or VLANs.
"""
from typing import Protocol

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.runtime import entry_points

MANAGERS = 'nova.network.managers'
OPTION = '[network] manager'


class Manager(Protocol):
    """Interface of a manager.

    serves_dhcp   whether hosts serve DHCP in flat networks
    project_type  type of project networks: vxlan (default) or vlan
    """

    serves_dhcp: bool
    project_type: str


class FlatManager:
    """Flat networks with a bridge as gateway and without DHCP: guests read their addresses from the config drive."""

    serves_dhcp = False
    project_type = 'vxlan'

    def __init__(self, conf: ConfigOpts) -> None:
        pass


class FlatDHCPManager(FlatManager):
    """Like FlatManager, with a DHCP server that has a static lease for each guest."""

    serves_dhcp = True


class VlanManager(FlatDHCPManager):
    """Like FlatDHCPManager, but project networks are VLANs of [network] vlan_ranges, each with a bridge.

    :raises InvalidOption: VLAN ranges are missing, or project networks are flat
    """

    project_type = 'vlan'

    def __init__(self, conf: ConfigOpts) -> None:
        super().__init__(conf)
        if not conf.network.vlan_ranges:
            raise exception.InvalidOption(
                f'{OPTION} = VlanManager needs [network] vlan_ranges, for example wire:100:199.')
        if conf.network.project_ranges:
            raise exception.InvalidOption(f'{OPTION} = VlanManager: with [network] project_ranges, networks of '
                                          'projects are flat and have no VLANs. Remove one of the options.')


OWN = {kind.__name__: kind for kind in (FlatManager, FlatDHCPManager, VlanManager)}


def load(conf: ConfigOpts) -> Manager:
    """Load the manager named in [network] manager.

    :raises InvalidOption: no such manager
    """
    name = conf.network.manager
    kind = OWN[name] if name in OWN else entry_points.named(OPTION, name, MANAGERS, sorted(OWN))
    found: Manager = kind(conf)
    return found


def project_type(conf: ConfigOpts) -> str:
    """Return the type of project networks."""
    found: str = getattr(load(conf), 'project_type', FlatManager.project_type)
    return found


def check_dhcp(conf: ConfigOpts, enabled: bool) -> None:
    """Check that the manager supports DHCP for a flat subnet.

    :raises InvalidInput: DHCP is requested, but the manager serves no DHCP
    """
    if enabled and not load(conf).serves_dhcp:
        raise exception.InvalidInput(reason=f'{OPTION} = {conf.network.manager} serves no DHCP. Create the subnet with '
                                            'enable_dhcp = false; its guests need a config drive.')
