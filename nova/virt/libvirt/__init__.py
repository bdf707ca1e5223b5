"""The libvirt driver. In a virtual environment, it can import the module libvirt of the Linux distribution."""
from nova.runtime import system_modules

system_modules.use()
