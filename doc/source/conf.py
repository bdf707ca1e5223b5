"""Sphinx configuration."""
import importlib.util
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'ext'))

import commands

from nova import version as nova_version

project = 'Nova'
copyright = 'the Nova developers'
extensions = ['sphinx.ext.autodoc', 'commands', 'reference']
# Man pages and a quick look at a page need no theme: packages are built without one.
html_theme = 'furo' if importlib.util.find_spec('furo') else 'alabaster'
release = version = nova_version.VERSION
html_title = f'Nova {release}'
html_static_path = ['_static']
html_css_files = ['narrow.css']
html_copy_source = False
man_pages = commands.MAN_PAGES
exclude_patterns = []
nitpicky = False
