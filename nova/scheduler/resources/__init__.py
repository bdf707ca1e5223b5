"""Special resources of a request on a node: NUMA cells and PCI devices."""
