"""The network service of the cloud (Neutron) in place of the embedded one."""
