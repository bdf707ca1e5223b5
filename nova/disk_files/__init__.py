"""Access to disk files for block storage, images and hypervisors: qemu-img, its sandbox, reflinks."""
