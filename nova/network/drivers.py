"""Which driver sets up the host."""
from nova.network import fake
from nova.network.linux import driver as linux

DRIVERS = {'fake': fake.FakeDriver, 'linux': linux.LinuxDriver}


def load(conf):
    """The driver that [network] driver names."""
    return DRIVERS[conf.network.driver](conf)
