"""Containers: libvirt's LXC, by [libvirt] virt_type = lxc."""
