"""Driver for tests: every feature without a hypervisor. Each feature is a class that works on ``Machine``."""
from nova.virt.fake.driver import FakeDriver

__all__ = ('FakeDriver',)
