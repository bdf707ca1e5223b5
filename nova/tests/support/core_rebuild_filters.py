"""What tests share with nova/tests/functional/test_core_rebuild_filters.py."""
from nova.tests import core

GOOD, BAD = core.IMAGE['id'], '70a599e0-31e7-49b7-b260-868f441e86ff'


class Picky:
    """A filter of the deployment that refuses one image."""

    def host_passes(self, host, spec):
        return (spec.image or {}).get('id') != BAD
