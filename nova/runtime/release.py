"""The release number of this code. Service rows and reports contain the number, for rolling upgrades.

``nova.rpc.versions.RELEASES`` lists the interfaces and objects of each release.
"""
VERSION = 2
