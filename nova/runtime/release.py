"""The release number of this code. Service rows and reports contain it, for rolling upgrades.

``nova.rpc.versions.RELEASES`` lists the interfaces and objects of each release.
"""
VERSION = 2
