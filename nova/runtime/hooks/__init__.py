"""Private parts of libraries that the product uses: one module a library, and no use of them anywhere else.

A new release of a library may change these parts without a word. ``nova/tests/unit/test_library_hooks.py`` looks for
each of them, and says what is missing and what it was used for.
"""
