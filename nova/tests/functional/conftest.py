"""Fixtures of the functional tests."""
import pytest

from nova.tests.functional import base


@pytest.fixture
def api(tmp_path):
    """A whole compute API over databases of its own (see base.ApiFixture)."""
    fixture = base.ApiFixture(tmp_path)
    yield fixture
    fixture.close()
