"""Containers: libvirt's LXC, with [libvirt] virt_type = lxc."""
