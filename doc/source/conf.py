"""Sphinx configuration."""
project = 'Nova'
copyright = 'the Nova developers'
extensions = ['sphinx.ext.autodoc']
html_theme = 'alabaster'
exclude_patterns = []
nitpicky = False
