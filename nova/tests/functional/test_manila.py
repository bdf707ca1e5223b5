"""The client of a Shared File Systems service, against the requests that its reference documents."""
import http.server
import json
import re
import threading
import urllib.parse
import uuid

import pytest

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova.share import manila
from nova.virt import share_exports

MINE, OTHERS, PROJECT = (str(uuid.uuid4()) for _ in range(3))


class Service(http.server.ThreadingHTTPServer):
    """What Manila does with shares of two projects; a rule is carried out when it has been looked at twice."""

    def __init__(self):
        super().__init__(('127.0.0.1', 0), Handler)
        self.rules, self.outcome, self.seen, self.key, self.denied = {}, 'active', [], 'QUJD' * 10, None


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_arguments):
        pass

    def do_GET(self):
        path, _, query = self.path.partition('?')
        if path == '/v2/share-access-rules':
            wanted = urllib.parse.parse_qs(query)['share_id'][0]
            found = [rule for rule in self.server.rules.values() if rule['share_id'] == wanted]
            self.answer(200, {'access_list': found})
            for rule in found:
                if rule['state'] == 'denying':
                    del self.server.rules[rule['id']]
                    continue
                rule['state'] = 'denying' if rule['state'] == 'queued_to_deny' else self.server.outcome
                if rule['access_type'] == 'cephx':
                    rule['access_key'] = self.server.key
        elif (found := re.fullmatch(r'/v2/shares/([^/]+)(/export_locations)?', path)) and found[1] == MINE:
            self.answer(200, {'export_locations': [
                {'path': '192.0.2.1:/admin', 'preferred': True, 'is_admin_only': True},
                {'path': '192.0.2.2:/slow', 'preferred': False}, {'path': '192.0.2.3:/fast', 'preferred': True}]}
                if found[2] else {'share': {
                    'id': MINE, 'project_id': PROJECT, 'status': 'available', 'share_proto': 'nfs'}})
        else:
            self.answer(404, {'itemNotFound': {'code': 404}})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        share_id = self.path.split('/')[3]
        self.server.seen.append((self.headers['X-OpenStack-Manila-API-Version'], body))
        if 'deny_access' in body and self.server.denied:
            return self.answer(self.server.denied, {})
        if 'deny_access' in body:
            rule = self.server.rules.pop(body['deny_access']['access_id'], None)
            return self.answer(202 if rule and body['deny_access'].get('unrestrict') else 404, {})
        wanted = body['allow_access']
        if any(rule['access_to'] == wanted['access_to'] for rule in self.server.rules.values()):
            return self.answer(400, {'badRequest': {'code': 400}})
        made = {'id': str(uuid.uuid4()), 'share_id': share_id, 'state': 'queued_to_apply', 'access_key': None,
                **{name: wanted[name] for name in ('access_type', 'access_to', 'access_level')}}
        self.server.rules[made['id']] = made
        return self.answer(200, {'access': made})

    def answer(self, code, document):
        content = json.dumps(document).encode()
        self.send_response(code)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def service():
    made = Service()
    threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def client(service, monkeypatch):
    monkeypatch.setattr(manila, 'POLL_S', 0.01)
    conf = nova_conf.new(files=[], manila__endpoint_override=f'http://127.0.0.1:{service.server_port}/v2')
    return manila.ManilaShares(conf)


@pytest.fixture
def ctx():
    return context.admin_context()


def test_a_share_has_the_location_that_users_are_to_prefer(client, ctx):
    assert client.get(ctx, MINE) == {'id': MINE, 'project_id': PROJECT, 'status': 'available', 'protocol': 'NFS',
                                     'export_location': '192.0.2.3:/fast'}
    for unknown in (OTHERS, '../shares', 'x' * 100):
        with pytest.raises(exception.ShareNotFound):
            client.get(ctx, unknown)


def test_a_host_is_let_in_once_and_out_again(client, ctx, service):
    client.allow(ctx, MINE, '192.0.2.7', 'NFS')
    client.allow(ctx, MINE, '192.0.2.7', 'NFS')
    rule, = service.rules.values()
    assert rule['state'] == 'active' and rule['access_to'] == '192.0.2.7'
    (version, body), = service.seen
    assert version == '2.82' and body['allow_access']['lock_deletion'] and body['allow_access']['lock_visibility']
    client.deny(ctx, MINE, '192.0.2.8', 'NFS')
    client.deny(ctx, MINE, '192.0.2.7', 'NFS')
    client.deny(ctx, MINE, '192.0.2.7', 'NFS')
    assert service.rules == {}


def test_a_host_has_a_user_of_ceph_for_each_share(client, ctx, service):
    """What its key opens is this share, and nothing when the rule is gone."""
    access = client.allow(ctx, MINE, '192.0.2.7', 'CEPHFS')
    assert client.allow(ctx, MINE, '192.0.2.7', 'CEPHFS') == access and access['key'] == service.key
    other = client.allow(ctx, MINE, '2001:db8::7', 'CEPHFS')['user']
    assert len({access['user'], other}) == 2
    for user in (access['user'], other):
        share_exports.check_access('CEPHFS', user, access['key'])
        assert MINE in user and '.' not in user
    assert {rule['access_type'] for rule in service.rules.values()} == {'cephx'}
    client.deny(ctx, MINE, '192.0.2.7', 'NFS')
    assert len(service.rules) == 2
    client.deny(ctx, MINE, '192.0.2.7', 'CEPHFS')
    assert [rule['access_to'] for rule in service.rules.values()] == [other]
    service.key = None
    service.rules.clear()
    with pytest.raises(exception.Conflict, match='no Ceph key'):
        client.allow(ctx, MINE, '192.0.2.7', 'CEPHFS')


def test_a_rule_that_is_not_carried_out_is_told(client, ctx, service, monkeypatch):
    service.outcome = 'error'
    with pytest.raises(exception.Conflict, match='in state error'):
        client.allow(ctx, MINE, '192.0.2.7', 'NFS')
    service.outcome = 'applying'
    client.deny(ctx, MINE, '192.0.2.7', 'NFS')
    monkeypatch.setattr(manila, 'RULE_S', 0)
    with pytest.raises(exception.Conflict, match='in state queued_to_apply'):
        client.allow(ctx, MINE, '192.0.2.7', 'NFS')


def test_rule_that_is_deleted_meanwhile_gives_no_access(client, ctx, monkeypatch):
    found = [{'state': 'applying'}, None]
    monkeypatch.setattr(client, '_rule', lambda *_words: found.pop(0))
    with pytest.raises(exception.Conflict, match='was deleted'):
        client.allow(ctx, MINE, '192.0.2.7', 'NFS')


def test_rule_that_is_being_removed_is_replaced(client, ctx, service):
    client.allow(ctx, MINE, '192.0.2.7', 'NFS')
    former, = service.rules.values()
    former['state'] = 'queued_to_deny'
    client.allow(ctx, MINE, '192.0.2.7', 'NFS')
    rule, = service.rules.values()
    assert rule['id'] != former['id'] and rule['state'] == 'active' and len(service.seen) == 2


def test_rule_that_may_not_be_deleted_is_no_revoked_rule(client, ctx, service):
    client.allow(ctx, MINE, '192.0.2.7', 'NFS')
    service.denied = 403
    with pytest.raises(exception.Forbidden):
        client.deny(ctx, MINE, '192.0.2.7', 'NFS')
    service.denied = 404
    client.deny(ctx, MINE, '192.0.2.7', 'NFS')


def test_a_service_that_is_away_is_told(client, ctx, service):
    service.shutdown()
    service.server_close()
    with pytest.raises(exception.Unavailable):
        client.get(ctx, MINE)
