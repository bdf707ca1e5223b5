"""The parts of a domain's XML, one module a group of devices or settings: pure functions, called by xml.py.

Each appends to the element that it is handed. https://libvirt.org/formatdomain.html describes every element. What
libvirt says that domains can have is read in offered.py and processors.py.
"""
