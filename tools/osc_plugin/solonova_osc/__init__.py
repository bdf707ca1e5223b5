"""Commands of the openstack client for operations that only this compute service has."""
VERSION = '1.0.0'
