"""Pure computations of host and guest hardware.

They cover requests of a flavor and an image (``guest_request``, ``cpu_topology``), resources of a host for guests
(``host``), placement of a guest on host cells and CPUs (``fit``, ``pinning``), resource usage of guests (``usage``),
and PCI devices (``pci_spec``, ``pci_pools``). The data classes are in nova/objects/numa.py and nova/objects/pci.py.
"""
