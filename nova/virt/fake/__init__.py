"""A driver for tests: every feature, and no hypervisor. Each feature is a class that works on ``Machine``."""
from nova.virt.fake.driver import FakeDriver

__all__ = ('FakeDriver',)
