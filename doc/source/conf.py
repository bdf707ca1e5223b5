"""Sphinx configuration."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'ext'))

project = 'Nova'
copyright = 'the Nova developers'
extensions = ['sphinx.ext.autodoc', 'reference']
html_theme = 'alabaster'
exclude_patterns = []
nitpicky = False
