"""The libvirt driver. In a virtual environment, the Linux distribution's module libvirt is made importable."""
from nova.runtime import system_modules

system_modules.use()
