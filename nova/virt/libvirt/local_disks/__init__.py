"""Storage backends of guests' local disks: one class for each [libvirt] images_type, behind one interface."""
