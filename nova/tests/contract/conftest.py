"""What holds for every request of the contract tests."""
import pytest

from nova.tests.functional import base


@pytest.fixture(scope='module', autouse=True)
def audited():
    """Each write that is carried out has one record in the audit log."""
    base.Client.audited = True
    yield
    base.Client.audited = False
