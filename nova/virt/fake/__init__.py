"""Driver for tests without a hypervisor. Each feature is a class that changes a ``Machine``."""
from nova.virt.fake.driver import FakeDriver

__all__ = ('FakeDriver',)
