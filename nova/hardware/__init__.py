"""Pure functions that compute the resources of hosts, the resources that guests request, and those that guests use.

``guest_request`` and ``cpu_topology`` compute what a flavor and an image request. ``host`` computes a host's resources
for guests. ``fit`` and ``pinning`` place a guest on host cells and CPUs. ``usage`` adds a guest to the host's used
resources. ``pci_spec`` and ``pci_pools`` handle PCI devices. The data classes are in nova/objects/numa.py and pci.py.
"""
