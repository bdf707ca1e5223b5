"""Attacks on a cloud, as rows: what a hostile client sends, and how an answer shows that it got through.

``tools/attack.py`` runs them against any cloud that clouds.yaml names; ``nova/tests/functional/test_attacks.py`` runs
them against one in the test's own process. A new family is a module with ``attacks(stage)`` in ``suite.FAMILIES``.
"""
