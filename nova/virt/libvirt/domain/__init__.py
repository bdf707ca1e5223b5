"""Pure functions that create the domain XML, called by xml.py. Each module has a group of devices or settings.

Each function appends elements to its first parameter. https://libvirt.org/formatdomain.html describes the elements.
offered.py and processors.py read libvirt's domain capabilities.
"""
