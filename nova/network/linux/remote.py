"""The Linux driver in a separate privileged process: its operations and the client.

====================  =====================================================  ===================================
Operation             Arguments                                              Needs
====================  =====================================================  ===================================
``network.start``     none                                                   NET_ADMIN: ip_forward; modprobe, if
                                                                             allowed
``network.refresh``   a HostState. The privileged process builds nft         NET_ADMIN, NET_RAW, NET_BIND_SERVICE;
                      scripts and commands from it                           SETUID, SETGID, KILL for dnsmasq;
                                                                             SYS_ADMIN for namespaces
``network.follow``    as ``network.refresh``                                 as ``network.refresh``
``network.refilter``  new ``rules`` and ``members`` for the last state        NET_ADMIN
``network.leases``    ``whole``: a boolean                                   none
``network.teardown``  none                                                   same as ``network.refresh``
====================  =====================================================  ===================================

The privileged process reads the configuration itself.
"""
from collections.abc import Callable
from typing import Any

from oslo_config.cfg import ConfigOpts

from nova.network.host import state as host_state
from nova.network.linux import driver as linux
from nova.network.linux import validators
from nova.runtime import privileges
from nova.runtime import validators as v

CAPABILITIES = (privileges.NET_ADMIN, privileges.NET_RAW, privileges.NET_BIND_SERVICE, privileges.CHOWN,
                privileges.DAC_OVERRIDE, privileges.FOWNER, privileges.KILL, privileges.SETGID, privileges.SETUID,
                privileges.SYS_ADMIN, privileges.SYS_MODULE)


class RemoteDriver:
    """Driver for an unprivileged process. The methods call those of a LinuxDriver in a privileged Helper process.

    :param helper: a Helper with ``operations``
    """

    def __init__(self, helper: privileges.Helper) -> None:
        self._helper = helper

    def start(self) -> None:
        self._helper.call('network.start')

    def refresh(self, load: Callable[[], host_state.HostState]) -> list[str]:
        return list(self._helper.call('network.refresh', state=_encoded(load)) or ())

    def follow(self, load: Callable[[], host_state.HostState]) -> list[str]:
        return list(self._helper.call('network.follow', state=_encoded(load)) or ())

    def refilter(self, rules: host_state.Rules, members: host_state.Members) -> bool:
        return bool(self._helper.call('network.refilter', rules=rules, members=members))

    def leases(self, whole: bool) -> list[host_state.Lease]:
        return list(self._helper.call('network.leases', whole=whole))

    def teardown(self) -> None:
        self._helper.call('network.teardown')


def _encoded(load: Callable[[], host_state.HostState]) -> dict[str, Any]:
    return load.encoded if isinstance(load, host_state.EncodedState) else host_state.as_json(load())


def helper(conf: ConfigOpts) -> privileges.Helper:
    """Create the Helper of a RemoteDriver; the caller forks it."""
    return privileges.Helper(operations(conf), capabilities=lambda: CAPABILITIES)


def operations(conf: ConfigOpts) -> dict[str, Callable[..., Any]]:
    """Return {name: function} of the operations that the privileged process executes for a RemoteDriver."""
    driver, state = linux.LinuxDriver(conf), validators.state(
        conf.network.bridge, conf.network.physical_networks.values())
    return {
        'network.start': driver.start,
        'network.teardown': driver.teardown,
        'network.refresh': v.operation(lambda state: driver.refresh(lambda: state), state=state),
        'network.follow': v.operation(lambda state: driver.follow(lambda: state), state=state),
        'network.refilter': v.operation(lambda rules, members: driver.refilter(rules, members),
                                        rules=validators.rules, members=validators.members),
        'network.leases': v.operation(driver.leases, whole=v.flag),
    }
