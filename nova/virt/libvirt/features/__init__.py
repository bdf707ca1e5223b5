"""Features of the driver of virtual machines: a class for each, or for a few that belong together."""
