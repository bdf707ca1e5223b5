"""Which driver sets up the host."""
from nova.network import fake
from nova.network.linux import driver as linux
from nova.network.linux import remote

DRIVERS = {'fake': fake.FakeDriver, 'linux': linux.LinuxDriver}


def load(conf, helper=None):
    """The driver that [network] driver names.

    :param helper: privileges.Helper that does for the Linux driver what this process may not do
    """
    if helper is not None:
        return remote.RemoteDriver(helper)
    return DRIVERS[conf.network.driver](conf)
