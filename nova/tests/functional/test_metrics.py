"""Metrics and health of a whole cloud over HTTP: known actions, no query at a scrape, no label of a client's words."""
import math
import random
import string
import threading
import time

import pytest
import requests
import sqlalchemy as sa
from prometheus_client import parser

from nova.api import app
from nova.runtime import health
from nova.runtime import monitoring
from nova.tests.functional import cloud


class Process:
    """What a service.Process says of its parts while it serves."""

    def __init__(self, *parts):
        self.parts = parts

    def alive(self):
        return health.alive(self.parts)

    def ready(self):
        return {**self.alive(), **health.ready(self.parts)}


class Watched:
    """A cloud and its listener."""

    def __init__(self, made):
        self.cloud = made
        made.conf.set_override('port', 0, group='monitoring')
        self.monitor = monitoring.Monitor(made.conf, Process(made), 'nova-all')
        self.monitor.start()
        self.demo, self.admin = made.client(), made.admin()
        self.image = self.demo.upload_image()

    def get(self, path):
        return requests.get(f'http://127.0.0.1:{self.monitor.port}{path}', timeout=10)

    def samples(self):
        """{(name, labels): value}"""
        return {(sample.name, frozenset(sample.labels.items())): sample.value
                for family in parser.text_string_to_metric_families(self.get('/metrics').text)
                for sample in family.samples}

    def changes(self, before):
        """{(name, labels): how much more}, of those that there is more of."""
        return {key: value - before.get(key, 0) for key, value in self.samples().items()
                if value != before.get(key, 0)}


def key(name, **labels):
    return name, frozenset(labels.items())


@pytest.fixture(scope='module')
def watched(tmp_path_factory):
    with cloud.running(tmp_path_factory.mktemp('metrics'), hosts=['host1', 'host2']) as made:
        watched = Watched(made)
        yield watched
        watched.monitor.stop(1)


def eventually(watched, before, wanted):
    """What has changed, once all of ``wanted`` has: the last counters are written after the answer."""
    deadline = time.monotonic() + 120
    while True:
        changed = watched.changes(before)
        missing = {each: (number, changed.get(each)) for each, number in wanted.items() if changed.get(each) != number}
        if not missing:
            return changed
        assert time.monotonic() < deadline, missing
        time.sleep(0.05)


def test_a_server_leaves_its_numbers(watched):
    before = watched.samples()
    server = watched.demo.boot(watched.image, networks='none', version='2.37')
    watched.demo.wait_for(server['id'])
    assert watched.demo.post(f"/servers/{server['id']}/action", {'os-stop': None}).status_code == 202
    watched.demo.wait_for(server['id'], 'SHUTOFF')
    assert watched.demo.delete(f"/servers/{server['id']}").status_code == 204
    watched.demo.wait_for(server['id'], 'DELETED')
    assert watched.demo.get('/servers/nonsense').status_code == 404
    rpc = {'topic': 'compute', 'method': 'build_instance', 'result': 'ok'}
    changed = eventually(watched, before, {
        key('nova_api_requests_total', method='POST', route='/servers', action='', status='202'): 1,
        key('nova_api_requests_total', method='POST', route='/servers/{id}/action', action='os-stop',
            status='202'): 1,
        key('nova_api_requests_total', method='DELETE', route='/servers/{id}', action='', status='204'): 1,
        key('nova_api_request_seconds_count', method='POST', route='/servers'): 1,
        key('nova_placements_total'): 1,
        key('nova_placement_seconds_count'): 1,
        key('nova_placement_batch_requests_count'): 1,
        key('nova_rpc_sent_total', **rpc): 1,
        key('nova_rpc_received_total', **rpc): 1,
        key('nova_tasks_ended_total', event='compute_build_instance', result='success'): 1,
        key('nova_tasks_ended_total', event='compute_stop_instance', result='success'): 1,
        key('nova_tasks_ended_total', event='compute_terminate_instance', result='success'): 1,
        key('nova_actions_ended_total', event='compute_build_instance', result='success'): 1,
        key('nova_actions_ended_total', event='compute_stop_instance', result='success'): 1,
        key('nova_actions_ended_total', event='compute_terminate_instance', result='success'): 1,
        key('nova_server_build_seconds_count'): 1,
    })
    assert not [name for name, _labels in changed if name in (
        'nova_usage_audit_drift_total', 'nova_placements_refused_total', 'nova_db_failures_total')]
    now = watched.samples()
    assert now[key('nova_scheduler_hosts')] >= 2
    assert not [labels for name, labels in now.keys() - before.keys() if name == 'nova_tasks_in_progress']


def test_a_placement_that_is_refused_names_the_filter(watched):
    flavor = watched.admin.post('/flavors', {'flavor': {
        'name': 'too large', 'ram': 64, 'vcpus': 1, 'disk': 10 ** 6, 'id': 'too-large'}}).json()['flavor']
    before = watched.samples()
    server = watched.demo.boot(watched.image, flavor=flavor['id'], networks='none', version='2.37')
    watched.demo.wait_for(server['id'], 'ERROR')
    changed = eventually(watched, before, {
        key('nova_placements_refused_total', filter='DiskFilter'): 1,
        key('nova_actions_ended_total', event='conductor_build_instance', result='error'): 1})
    assert changed[key('nova_placement_hosts_removed_total', filter='DiskFilter')] >= 2
    assert key('nova_placements_total') not in changed


def test_requests_refused_before_routing_are_counted(watched):
    before = watched.samples()
    assert requests.get(watched.cloud.url + '/compute/v2.1/servers', timeout=10).status_code == 401
    eventually(watched, before, {
        key('nova_api_requests_total', method='GET', route='', action='', status='401'): 1})


def test_no_label_is_a_clients_word(watched):
    dice = random.Random(5)
    words = [''.join(dice.choices(string.ascii_letters + string.digits + '%"{}\\', k=12)) for _ in range(120)]
    routes = app.all_routes()
    allowed, actions = {route.path for route in routes} | {''}, {route.action or '' for route in routes}
    series = None
    for number, word in enumerate(words):
        if number == 20:
            series = len(watched.samples())
        path = dice.choice(['/servers/{}', '/flavors/{}', '/{}', '/servers/{}/metadata/{}', '/os-hypervisors/{}',
                            '/servers/{}/action', '/servers?{}={}']).replace('{}', word)
        method = dice.choice(['GET', 'GET', 'DELETE', 'POST', 'PUT', 'BREW' + ''.join(filter(str.isalnum, word))])
        try:
            watched.demo.request(method, path, {word: None} if method in ('POST', 'PUT') else None)
        except (requests.exceptions.InvalidHeader, requests.exceptions.InvalidURL, requests.ConnectionError):
            continue
    for name, labels in watched.samples():
        assert not [value for _label, value in labels if value in words]
        if name.startswith('nova_api_requests'):
            of = dict(labels)
            assert of.get('route', '') in allowed and of.get('action', '') in actions
            assert of.get('method', 'GET') in {'GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'other'}
    assert len(watched.samples()) < series + 300       # new pairs of routes and codes, none for each request


def test_a_scrape_asks_no_database(watched):
    application, mine, asked = monitoring.Application(Process(watched.cloud)), threading.get_ident(), []

    def note(*_):
        asked.append(threading.get_ident())
    sa.event.listen(sa.engine.Engine, 'before_cursor_execute', note)
    try:
        for path in ('/metrics', '/healthz'):
            body = b''.join(application({'PATH_INFO': path, 'REQUEST_METHOD': 'GET'}, lambda status, headers: None))
            assert body
        with watched.cloud.api_db.reader() as conn:
            conn.execute(sa.select(1))       # that would have been noticed
    finally:
        sa.event.remove(sa.engine.Engine, 'before_cursor_execute', note)
    assert asked.count(mine) == 1


def test_health_names_every_part(watched):
    answer = watched.get('/readyz')
    assert answer.status_code == 200, answer.text
    checks = answer.json()['checks']
    assert {'broker', 'database api', 'database cell', 'nova-compute host1 heartbeat', 'nova-compute host2 workers',
            'nova-conductor host1 workers', 'nova-scheduler host1 reports'} <= checks.keys()
    assert 'sqlite' not in answer.text and watched.get('/healthz').status_code == 200


def test_a_database_that_is_away_is_no_reason_for_a_restart(watched):
    def refuse(*_):
        raise OSError('away')
    time.sleep(health.FRESH_S + 0.1)
    sa.event.listen(watched.cloud.api_db.engine, 'before_cursor_execute', refuse)
    try:
        answer = watched.get('/readyz')
        assert answer.status_code == 503 and answer.json()['checks']['database api']['status'] == 'failed'
        assert watched.get('/healthz').status_code == 200
    finally:
        sa.event.remove(watched.cloud.api_db.engine, 'before_cursor_execute', refuse)
    time.sleep(health.FRESH_S + 0.1)
    assert watched.get('/readyz').status_code == 200


@pytest.mark.parametrize('path', ['/healthcheck', '/compute/healthcheck'])
def test_a_load_balancer_needs_no_token_and_is_not_counted(watched, path):
    before = watched.samples()
    answer = requests.get(watched.cloud.url + path, timeout=10)
    assert (answer.status_code, answer.text) == (200, 'OK')
    assert not [labels for name, labels in watched.changes(before) if name == 'nova_api_requests_total']


def test_no_secret_is_exposed(watched):
    text = watched.get('/metrics').text + watched.get('/readyz').text
    for secret in (watched.demo.token, watched.admin.token, str(watched.cloud.state_path), watched.demo.project_id):
        assert secret not in text


def test_metrics_api_returns_the_same_samples_as_the_scrape(watched):
    before = watched.samples()
    found = {one['name']: one for one in watched.admin.get('/os-metrics').json()['metrics']}
    kinds = {'nova_api_requests': 'counter', 'nova_api_request_seconds': 'histogram', 'nova_db_connections': 'gauge'}
    assert {name: found[name]['kind'] for name in kinds} == kinds
    assert not [sample for one in found.values() for sample in one['samples'] if sample['name'].endswith('_bucket')]
    written = {key(sample['name'], **sample['labels']) for one in found.values() for sample in one['samples']}
    # of the series of a scrape before and one after: others appear or end in between; JSON has no infinite values
    after = watched.samples()
    shown = {one for one in before.keys() & after.keys() if math.isfinite(before[one]) and math.isfinite(after[one])}
    assert {one for one in shown if not one[0].endswith('_bucket')} <= written
    assert any(one[0].startswith('nova_periodic_') for one in written)
    assert watched.demo.get('/os-metrics').status_code == 403
