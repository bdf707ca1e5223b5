"""The network service's transactions on MariaDB and PostgreSQL.

Runs when NOVA_TEST_MYSQL_URL or NOVA_TEST_POSTGRESQL_URL name an empty database.
"""
import os

import pytest

from nova.tests import schemas
from nova.tests.unit import test_network_manager as unit
from nova.tests.unit.test_network_manager import *      # noqa: F403


@pytest.fixture(params=['mysql', 'postgresql'])
def rig(tmp_path, request, used_urls):
    variable = f'NOVA_TEST_{request.param.upper()}_URL'
    if not os.environ.get(variable):
        pytest.skip(f'{variable} is not set')
    used_urls.add(os.environ[variable])
    rig = unit.Rig(tmp_path, os.environ[variable], network__default_cidr='10.44.0.0/24')
    yield rig
    schemas.empty(rig.db, 'api')
    rig.db.dispose()
