"""Requests at the same moment: one wins, the others get the documented refusal, nothing is lost."""
import pytest
import sqlalchemy as sa

from nova.db import engine
from nova.db.servers import instance_actions
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.tests import races
from nova.tests.functional import servers


@pytest.fixture
def cloud(tmp_path):
    fixture = servers.Servers(tmp_path)
    yield fixture
    fixture.close()


def test_one_of_several_actions_wins(cloud):
    bodies = ({'os-stop': None}, {'pause': None}, {'suspend': None}, {'reboot': {'type': 'SOFT'}},
              {'createImage': {'name': 'copy'}}, {'rebuild': {'imageRef': cloud.image_id}})
    for _ in range(5):
        uuid = cloud.client().post('/servers', cloud.body()).json['server']['id']
        with cloud.cell_db.writer() as conn:
            conn.execute(sa.update(tables_cell.instances).where(tables_cell.instances.c.uuid == uuid).values(
                vm_state='active', task_state=None, host='host1', node='node1'))
        cloud.compute.sent.clear()
        answers = races.at_once(*(lambda body=body: cloud.client().post(f'/servers/{uuid}/action', body)
                                  for body in bodies))
        codes = sorted(answer.status for answer in answers)
        assert codes == [202] + [409] * (len(bodies) - 1)
        assert len(cloud.compute.sent) == 1
        with cloud.cell_db.reader() as conn:
            assert len(instance_actions.by_instance(conn, uuid)) == 2        # create and the winner


def test_a_quota_is_never_exceeded(cloud):
    requests = [lambda: cloud.client().post('/servers', cloud.body(min_count=1, max_count=2))] * 12
    codes = [answer.status for answer in races.at_once(*requests)]
    assert set(codes) == {202, 403}
    for database, table in (
        (cloud.api_db, tables_api.instance_mappings),
        (cloud.cell_db, tables_cell.instances)):
        with database.reader() as conn:
            assert conn.execute(sa.select(sa.func.count()).select_from(table)).scalar() == 10


def test_changes_of_metadata_and_tags_are_not_lost(cloud):
    uuid, client = cloud.add_server(metadata={}), cloud.client(version='2.26')
    answers = races.at_once(*
                            (lambda n=n: client.put(f'/servers/{uuid}/metadata/k{n}', {'meta': {f'k{n}': 'v'}})
                       for n in range(8)),
                      *(lambda n=n: client.put(f'/servers/{uuid}/tags/t{n}') for n in range(8)))
    assert {answer.status for answer in answers} == {200, 201}
    assert set(client.get(f'/servers/{uuid}/metadata').json['metadata']) == {f'k{n}' for n in range(8)}
    assert set(client.get(f'/servers/{uuid}/tags').json['tags']) == {f't{n}' for n in range(8)}


def test_concurrent_deletes_are_both_accepted(cloud):
    """Both are accepted: a delete may begin in any state, and its end is the same."""
    uuid = cloud.add_server()
    answers = races.at_once(*[lambda: cloud.client().delete(f'/servers/{uuid}')] * 2)
    assert [answer.status for answer in answers] == [204, 204]
    assert cloud.row(uuid)['task_state'] == 'deleting'


@pytest.mark.parametrize('request_of_user, code', [({'unlock': None}, 403), ({'lock': {'locked_reason': 'mine'}}, 202)])
def test_lock_of_an_administrator_survives_a_request_of_the_owner_that_began_before(
        cloud, monkeypatch, request_of_user, code):
    uuid, run, waiting = cloud.add_server(), engine.Database.run, [True]

    def lock_first(database, *arguments):
        if waiting and database is not cloud.api_db:
            waiting.clear()
            assert cloud.admin(version='2.73', project='c' * 32).post(
                f'/servers/{uuid}/action', {'lock': {'locked_reason': 'forensics'}}).status == 202
        return run(database, *arguments)
    monkeypatch.setattr(engine.Database, 'run', lock_first)
    answer = cloud.client(version='2.73').post(f'/servers/{uuid}/action', request_of_user)
    row = cloud.row(uuid)
    assert (waiting, answer.status, row['locked_by'], row['locked_reason']) == ([], code, 'admin', 'forensics')
