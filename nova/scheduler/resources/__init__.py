"""What a request takes of a node besides numbers: NUMA cells and PCI devices."""
