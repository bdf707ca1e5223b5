"""Special resources of a request (placement_request.SpecialResource): NUMA cells and PCI devices."""
