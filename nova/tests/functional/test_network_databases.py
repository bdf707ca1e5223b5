"""The network service's transactions on MariaDB and PostgreSQL.

Runs when NOVA_TEST_MYSQL_URL or NOVA_TEST_POSTGRESQL_URL name an empty database.
"""
import os

import pytest

from nova.db import tables_api
from nova.tests.unit import test_network_manager as unit
from nova.tests.unit.test_network_manager import *      # noqa: F403


@pytest.fixture(params=['mysql', 'postgresql'])
def rig(tmp_path, request):
    variable = f'NOVA_TEST_{request.param.upper()}_URL'
    if not os.environ.get(variable):
        pytest.skip(f'{variable} is not set')
    rig = unit.Rig(tmp_path, os.environ[variable], network__default_cidr='10.44.0.0/24')
    yield rig
    tables_api.metadata.drop_all(rig.db.engine)
    rig.db.dispose()
