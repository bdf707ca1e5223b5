"""Parts of a domain's XML, one module for each group of devices or settings: pure functions, called by xml.py.

Each function appends to the given element. https://libvirt.org/formatdomain.html describes every element. offered.py
and processors.py read libvirt's domain capabilities.
"""
