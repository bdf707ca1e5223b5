"""Neutron as network service, instead of the embedded network service."""
