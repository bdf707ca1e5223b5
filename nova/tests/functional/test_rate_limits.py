"""Request rates: who is refused when, what GET /limits shows, and that all processes count together."""
import threading

import pytest
import sqlalchemy as sa

from nova import exception
from nova.api import app
from nova.api import rate_limits
from nova.db.tables import api as tables_api
from nova.tests.functional import base

LINES = ['POST * .* 3 MINUTE', 'POST */os-keypairs ^/os-keypairs 2 MINUTE',
         'GET *changes-since* .*changes-since.* 1 DAY']
OTHER = 'b' * 32


class Clock:
    def __init__(self):
        self.now = 1_800_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def api(tmp_path):
    fixture = base.ApiFixture(tmp_path, api__rate_limits=LINES)
    fixture.clock = Clock()
    fixture.services.rates = rate_limits.RateLimits(LINES, fixture.api_db, fixture.clock)
    yield fixture
    fixture.close()


def _post(client, version=None, **more):
    return client.post('/os-keypairs', {'keypair': {}}, version=version, **more)      # 400 when it is not refused


def test_the_code_and_the_wait(api):
    client = api.client()
    assert [_post(client).status for _ in range(2)] == [400, 400]
    answer = _post(client)
    key, code, message = answer.fault
    assert (answer.status, key, code) == (413, 'overLimit', 413)
    assert message.startswith('Only 2 POST request(s) can be made to */os-keypairs every minute')
    assert answer.headers['retry-after'] == '30'
    assert answer.json['overLimit']['retryAfter'].endswith('Z')
    for version, expected in (('2.1', 413), ('2.2', 429), ('2.104', 429)):
        assert _post(client, version).status == expected
    assert _post(api.client(prefix='/v2')).status == 413
    api.clock.now += 29.9
    assert _post(client).headers['retry-after'] == '1'
    api.clock.now += 0.2
    assert _post(client).status == 400


def test_a_refused_request_takes_from_no_row(api):
    client = api.client()
    for _ in range(5):
        _post(client)
    # two of the three that are for every POST are used
    shown = {row['uri']: row['limit'][0] for row in client.get('/limits').json['limits']['rate']}
    assert shown['*']['remaining'] == 1 and shown['*/os-keypairs']['remaining'] == 0
    assert client.post('/servers', {}).status == 400
    assert client.post('/servers', {}).status == 413


def test_projects_do_not_share_and_administrators_are_free(api):
    for _ in range(3):
        _post(api.client())
    assert _post(api.client(user='another')).status == 413
    assert _post(api.client(project=OTHER)).status == 400
    for who in (api.admin(project=base.PROJECT), api.client(roles=('service',))):
        assert {_post(who).status for _ in range(5)} <= {400, 403}


@pytest.mark.parametrize('query', ['changes-since=2026-01-01', 'x=1&changes%2Dsince=2026-01-01'])
def test_a_query_is_part_of_what_counts(api, query):
    client = api.client()
    assert client.get('/servers').status == 200
    assert client.get(f'/servers?{query}').status == 200
    for path in (f'/servers?{query}', f'/{base.PROJECT}/servers/detail?{query}', f'/servers.json?{query}'):
        answer = client.get(path)
        assert answer.status == 413 and answer.headers['retry-after'] == '86400'
    assert client.get('/servers').status == 200


def test_a_body_is_not_read_of_a_request_that_is_refused(api):
    client = api.client()
    for _ in range(2):
        _post(client)
    assert client.post('/os-keypairs', raw=b'{').status == 413


def test_limits_show_what_is_left(api):
    client = api.client()
    _post(client)
    rows = client.get('/limits').json['limits']['rate']
    assert [(row['uri'], row['regex']) for row in rows] == [
        ('*', '.*'), ('*/os-keypairs', '^/os-keypairs'), ('*changes-since*', '.*changes-since.*')]
    assert rows[1]['limit'] == [{'verb': 'POST', 'value': 2, 'remaining': 1, 'unit': 'MINUTE',
                                 'next-available': '2027-01-15T08:00:00Z'}]
    _post(client)
    assert client.get('/limits').json['limits']['rate'][1]['limit'][0]['next-available'] == '2027-01-15T08:00:30Z'


def test_without_rows_nothing_is_counted(tmp_path):
    fixture = base.ApiFixture(tmp_path)
    seen = []
    sa.event.listen(fixture.api_db.engine, 'before_cursor_execute', lambda *args: seen.append(args[2]))
    assert fixture.client().get('/extensions').status == 200
    assert seen == []
    assert fixture.client().get('/limits').json['limits']['rate'] == []
    fixture.close()


def test_a_request_that_counts_is_one_statement(api):
    """Whatever number of rows it matches; and none once it is known that there is nothing left."""
    client, seen = api.client(), []
    _post(client)                  # makes the rows
    sa.event.listen(api.api_db.engine, 'before_cursor_execute', lambda *args: seen.append(args[2]))
    _post(client)
    assert [text.split()[0] for text in seen if 'audit_records' not in text] == ['UPDATE']
    assert _post(client).status == 413
    seen.clear()
    assert _post(client).status == 413 and seen == []


def test_refilled_rate_limit_rows_are_pruned(api):
    _post(api.client())
    api.clock.now += 2 * rate_limits.PRUNE_S
    _post(api.client(project=OTHER))
    with api.api_db.reader() as conn:
        assert set(conn.execute(sa.select(tables_api.rate_limits.c.owner)).scalars()) == {OTHER}


def test_pruning_allows_other_threads_to_note_exhausted_limits(api):
    used_up = api.services.rates._used_up

    class Time(int):
        def __gt__(self, now):               # another thread notes a limit between two steps of the pruning
            used_up[now, len(used_up)] = now
            return int(self) > now
    used_up.update({number: Time() for number in range(2)})
    assert _post(api.client()).status == 400 and len(used_up) > 2 and api.services.rates._used_up == {}


@pytest.mark.threads
def test_processes_count_together(api):
    """Two applications over one database, many threads: as many get through as the row lets."""
    line = ['GET * .* 20 HOUR']
    applications = [app.Application(app.Services(
        conf=api.conf, api_db=api.api_db, cells=api.cells, policy=api.policy)) for _ in range(2)]
    for application in applications:
        application.services.rates = rate_limits.RateLimits(line, api.api_db, api.clock)
    codes = []

    def ask(application):
        client = base.Client(application)
        codes.extend(client.get('/extensions/os-hosts').status for _ in range(8))
    threads = [threading.Thread(target=ask, args=(application,)) for application in applications * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [200] * 20 + [413] * 44


@pytest.mark.parametrize('line', ['POST *', 'HEAD * .* 1 MINUTE', 'GET * ( 1 MINUTE', 'GET * .* 0 MINUTE',
                                  'GET * .* x MINUTE', 'GET * .* 1 YEAR', 'GET * .* -1 DAY',
                                  'GET * .* 00000000019999999999 MINUTE'])
def test_a_wrong_row_is_refused_at_the_start(line):
    with pytest.raises(exception.InvalidInput, match='rate_limits'):
        rate_limits.parse([line])


def test_the_guides_sample_rates_are_one_line_away(tmp_path):
    fixture = base.ApiFixture(tmp_path, api__rate_limits=['guide', 'GET */flavors ^/flavors 3 HOUR'])
    try:
        shown = fixture.client().get('/limits').json['limits']['rate']
        assert {(row['uri'], row['regex'], each['verb'], each['value'], each['unit'])
                for row in shown for each in row['limit']} == {
            ('*', '.*', 'POST', 120, 'MINUTE'), ('*/servers', '^/servers', 'POST', 120, 'MINUTE'),
            ('*', '.*', 'PUT', 120, 'MINUTE'), ('*', '.*', 'DELETE', 120, 'MINUTE'),
            ('*changes-since*', '.*changes-since.*', 'GET', 120, 'MINUTE'),
            ('*/os-fping*', '^/os-fping', 'GET', 12, 'MINUTE'), ('*/flavors', '^/flavors', 'GET', 3, 'HOUR')}
    finally:
        fixture.close()
