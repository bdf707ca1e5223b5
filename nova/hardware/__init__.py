"""Arithmetic of hosts' and guests' hardware, without I/O: what a flavor and an image ask for (``guest_request``,
``cpu_topology``), what of a host is for guests (``host``), where on it a guest fits (``fit``, ``pinning``), what it
then takes (``usage``), and PCI devices (``pci_spec``, ``pci_pools``). The shapes are in nova/objects/numa.py and
nova/objects/pci.py.
"""
