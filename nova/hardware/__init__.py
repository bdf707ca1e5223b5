"""Pure computations of host and guest hardware.

They cover requests of a flavor and an image (``guest_request``, ``cpu_topology``), guest resources of a host
(``host``), placement of a guest (``fit``, ``pinning``), its usage (``usage``), and PCI devices (``pci_spec``,
``pci_pools``). The data classes are in nova/objects/numa.py and nova/objects/pci.py.
"""
