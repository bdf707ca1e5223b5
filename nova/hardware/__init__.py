"""Pure computations of host and guest hardware.

``guest_request`` and ``cpu_topology`` compute what a flavor and an image request. ``host`` computes a host's resources
for guests. ``fit`` and ``pinning`` place a guest on host cells and CPUs, ``usage`` accounts for it. ``pci_spec`` and
``pci_pools`` handle PCI devices. The data classes are in nova/objects/numa.py and nova/objects/pci.py.
"""
