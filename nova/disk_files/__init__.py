"""Disk files, shared by block storage, images and hypervisors: qemu-img, its sandbox, reflinks."""
