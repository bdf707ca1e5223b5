"""Driver for tests without a hypervisor. A class implements each feature and changes the state of a ``Machine``."""
from nova.virt.fake.driver import FakeDriver

__all__ = ('FakeDriver',)
