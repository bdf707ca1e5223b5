"""The release number of this code: in the service rows and in reports, for rolling upgrades.

``nova.rpc.versions.RELEASES`` says which interfaces and objects each release has.
"""
VERSION = 2
