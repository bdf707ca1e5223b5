"""The libvirt driver. Its modules may import the distribution's module libvirt from a virtual environment."""
from nova.runtime import system_modules

system_modules.use()
