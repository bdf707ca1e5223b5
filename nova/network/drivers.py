"""Which driver sets up the host."""
from nova.network.linux import remote
from nova.runtime import entry_points

DRIVERS = 'nova.network.drivers'         # the group of entry points: where other packages add theirs


def load(conf, helper=None):
    """The driver that [network] driver names.

    :param helper: privileges.Helper that does for the Linux driver what this process may not do
    :raises InvalidOption: there is none of this name
    """
    if helper is not None:
        return remote.RemoteDriver(helper)
    return entry_points.named('[network] driver', conf.network.driver, DRIVERS)(conf)
