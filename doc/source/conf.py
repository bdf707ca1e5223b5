"""Sphinx configuration."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'ext'))

import commands

project = 'Nova'
copyright = 'the Nova developers'
extensions = ['sphinx.ext.autodoc', 'commands', 'reference']
html_theme = 'alabaster'
man_pages = commands.MAN_PAGES
exclude_patterns = []
nitpicky = False
