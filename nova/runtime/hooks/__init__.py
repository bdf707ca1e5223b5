"""Private parts of libraries that the product uses: one module a library, and no use of them anywhere else.

A new release of a library may change these parts without notice. ``nova/tests/unit/test_library_hooks.py`` checks each
of them, and reports missing ones with their purpose.
"""
