"""Network service of a deployment with Neutron in place of the embedded network service."""
