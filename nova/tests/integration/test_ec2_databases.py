"""The EC2 API's own tables on MariaDB and PostgreSQL: ids, tags, client tokens and launch templates; that of VPNs."""
from concurrent import futures
import datetime
import uuid

import pytest

from nova import exception
from nova import utils
from nova.db.ec2 import launch_templates
from nova.db.ec2 import tags
from nova.db.projects import vpns
from nova.tests import long_runs
from nova.tests.functional import cloud as whole
from nova.tests.functional.test_ec2 import demo        # noqa: F401
from nova.tests.functional.test_ec2 import ec2         # noqa: F401
from nova.tests.functional.test_ec2 import flavor      # noqa: F401
from nova.tests.functional.test_ec2 import image       # noqa: F401
from nova.tests.functional.test_ec2 import pair        # noqa: F401
from nova.tests.functional.test_ec2 import test_a_dry_run_proves_what_can_be_known      # noqa: F401
from nova.tests.functional.test_ec2 import test_client_token_of_an_interrupted_request_finds_its_volume      # noqa: F401
from nova.tests.functional.test_ec2 import test_launch_templates_are_managed_and_used      # noqa: F401
from nova.tests.functional.test_ec2 import test_spread_placement_group_separates_instances      # noqa: F401
from nova.tests.functional.test_ec2 import test_one_client_token_makes_one_volume      # noqa: F401
from nova.tests.functional.test_ec2 import test_unsupported_launch_template_data_is_refused      # noqa: F401
from nova.tests.integration import servers


@pytest.fixture(scope='module', params=long_runs.rest(['mariadb', 'postgresql']))
def cloud(request, tmp_path_factory):
    with servers.SHARED[request.param]() as url_of, whole.running(
            tmp_path_factory.mktemp('ec2'), ['host1'], api_database__connection=url_of('ec2_api'),
            database__connection=url_of('ec2_cell')) as running:
        yield running


def template(name):
    return {'uuid': str(uuid.uuid4()), 'project_id': 'counted', 'name': name, 'created_by': 'me',
            'created_at': utils.utcnow()}


def test_versions_made_at_the_same_moment_have_numbers_of_their_own(cloud):
    db = cloud.api_db
    assert db.run(launch_templates.create, template('Same'), {'description': None, 'data': '{}'})
    assert not db.run(launch_templates.create, template('Same'), {'description': None, 'data': '{}'})
    assert db.run(launch_templates.create, template('same'), {'description': None, 'data': '{}'}), 'case counts'
    row = launch_templates.one(db, 'counted', name='Same')

    def add(_number):
        return db.run(launch_templates.add_version, row['id'], {
            'description': None, 'data': '{}', 'created_by': 'me', 'created_at': utils.utcnow()})
    with futures.ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(add, range(launch_templates.MAX_VERSIONS - 1))) == list(
            range(2, launch_templates.MAX_VERSIONS + 1))
    with pytest.raises(exception.BadRequest):
        add(0)
    assert db.run(launch_templates.delete_version, row['id'], 1) == 'default'
    assert db.run(launch_templates.delete_version, row['id'], 2) is None
    assert add(0) == launch_templates.MAX_VERSIONS + 1, 'a number never comes again'


def test_tags_whose_keys_differ_in_case_do_not_replace_each_other(cloud):
    db = cloud.api_db
    tags.put(db, 'counted', 7, {'Name': 'web'})
    if db.engine.dialect.name == 'mysql':
        with pytest.raises(exception.BadRequest, match='only in case'):
            tags.put(db, 'counted', 7, {'name': 'other'})
    else:
        tags.put(db, 'counted', 7, {'name': 'other'})
    tags.remove(db, 'counted', 7, {'NAME': None, 'name': None})
    tags.put(db, 'counted', 7, {'Name': 'db'})
    assert tags.of(db, 'counted', [7]) == {7: {'Name': 'db'}}
    tags.remove(db, 'counted', 7, {'Name': 'web'})
    assert tags.of(db, 'counted', [7]) == {7: {'Name': 'db'}}


def test_one_request_makes_the_vpn_instance_of_a_project(cloud):
    db, now = cloud.api_db, utils.utcnow()
    old = now - datetime.timedelta(seconds=120)
    with futures.ThreadPoolExecutor(6) as pool:
        begun = list(pool.map(lambda number: db.run(vpns.begin, 'counted', now + datetime.timedelta(
            microseconds=number), old), range(6)))
    assert begun.count(True) == 1
    db.run(vpns.end, 'counted', now + datetime.timedelta(microseconds=begun.index(True)))
    assert db.run(vpns.begin, 'counted', now, old) and not db.run(vpns.begin, 'counted', now, old)
    for address, port in (('198.51.100.7', 1194), ('2001:db8::1', 53)):
        db.run(vpns.configure, 'counted', address, port)
        with db.reader() as conn:
            assert vpns.endpoints(conn) == {'counted': (address, port)}
            assert not vpns.servers(conn, 'vpn') and not vpns.servers(conn, 'vpn', 'counted')
