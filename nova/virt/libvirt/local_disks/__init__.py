"""Where the disks of guests lie that are no volumes: one class for each [libvirt] images_type, behind one interface."""
