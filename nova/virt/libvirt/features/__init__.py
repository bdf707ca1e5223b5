"""Features of the driver of virtual machines: one class for each feature or small group of features."""
