"""Packaging; see setup.cfg."""
import setuptools

setuptools.setup()
