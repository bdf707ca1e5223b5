"""The release number of this code: in the service rows and in reports, for rolling upgrades.

``nova.rpc.versions.RELEASES`` lists the interfaces and objects of each release.
"""
VERSION = 2
