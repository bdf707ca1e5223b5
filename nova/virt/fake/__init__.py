"""A hypervisor without guests: every feature, nothing behind it. A feature is a mixin in a file of its own."""
from nova.virt.fake.driver import FakeDriver

__all__ = ('FakeDriver',)
