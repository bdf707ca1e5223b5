"""Driver for LXC containers of libvirt, if [libvirt] virt_type is lxc."""
