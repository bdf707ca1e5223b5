"""The keys of encrypted disks and volumes on MariaDB and PostgreSQL: those of test_disk_keys.py, and makers at once."""
from concurrent import futures
import types
import uuid

from oslo_db import exception as db_exc
import pytest

from nova import context
from nova.conductor.servers import disk_keys
from nova.db.servers import disk_keys as rows
from nova.tests.functional import cloud as whole
from nova.tests.functional import test_disk_keys
from nova.tests.functional.test_disk_keys import attached        # noqa: F401
from nova.tests.functional.test_disk_keys import test_a_conductor_without_the_file_makes_no_other_one      # noqa: F401
from nova.tests.functional.test_disk_keys import test_a_key_is_for_the_host_of_its_server_and_gone_with_it      # noqa: F401
from nova.tests.support import pci_cloud as test_pci_cloud
from nova.tests.functional.test_disk_keys import (      # noqa: F401
    test_the_key_of_a_volume_is_got_once_by_its_owner_and_kept_while_the_server_has_it)
from nova.tests.integration import servers


@pytest.fixture(scope='module', params=['mariadb', 'postgresql'])
def clients(request, tmp_path_factory):
    with servers.SHARED[request.param]() as url_of, whole.running(
            tmp_path_factory.mktemp('keys'), ['host1', 'host2'], api_database__connection=url_of('keys_api'),
            database__connection=url_of('keys_cell')) as made:
        found = test_pci_cloud.Clients(made)
        found.flavor('sealed', hw__ephemeral_encryption='true', hw__ephemeral_encryption_format='luks')
        found.flavor('plain')
        yield found


def test_two_conductors_that_are_asked_at_once_give_one_key(clients):
    cloud = clients.cloud
    server = clients.boot('sealed')['id']
    cloud.cell_db.run(rows.delete, server)               # as before its first disk
    services = types.SimpleNamespace(cell_db=cloud.cell_db, volumes=None, conf=cloud.conf)
    conductors = [disk_keys.DiskKeys(services) for _number in range(4)]
    with futures.ThreadPoolExecutor(4) as pool:
        keys = list(pool.map(lambda each: each.get_disk_key(context.admin_context(), server), conductors))
    assert len(set(keys)) == 1 and test_disk_keys.row(clients, server) is not None


def test_server_and_each_of_its_volumes_have_one_key_row(clients):
    db, server, volumes = clients.cloud.cell_db, str(uuid.uuid4()), [str(uuid.uuid4()) for _number in range(2)]
    db.run(rows.insert_of_volume, server, volumes[0], 'older', 'x')
    db.run(rows.insert_of_volume, server, volumes[1], 'newer', 'y' * 400)
    with pytest.raises(db_exc.DBDuplicateEntry):
        db.run(rows.insert_of_volume, server, volumes[0], 'newer', 'z')
    assert db.run(rows.of_volume, server, volumes[0])['encrypted_key'] == 'x'
    assert db.run(rows.of_volume, server, volumes[1])['encrypted_key'] == 'y' * 400
    assert 'newer' in db.run(rows.encryption_key_ids, 'another')
    assert 'newer' not in db.run(rows.encryption_key_ids, 'newer')
    db.run(rows.delete_of_volume, server, volumes[0])
    assert db.run(rows.of_volume, server, volumes[0]) is None
    db.run(rows.delete_of_volumes, server)
    assert db.run(rows.of_volume, server, volumes[1]) is None
