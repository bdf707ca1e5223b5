"""Uses of private parts of libraries: one module for each library. Other modules use only public interfaces.

A new release of a library may change these parts without notice. ``nova/tests/unit/test_library_hooks.py`` checks
each part, and reports the purpose of a missing part.
"""
