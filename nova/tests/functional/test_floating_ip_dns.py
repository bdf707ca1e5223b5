"""os-floating-ip-dns: domains, the names in them, whose they are, and what hosts get of them."""
import json

import pytest

from nova import context
from nova.db.networks import dns as db_dns
from nova.db.networks import networks
from nova.db.tables import network as t
from nova.network.host import load as host_load
from nova.network.host import state as host_state
from nova.network.linux import validators
from nova.network.operators import dns
from nova.tests.functional import base
from nova.tests.functional import servers

OTHER = 'c' * 32
DNS = '/os-floating-ip-dns'
PUBLIC, PRIVATE = ({'domain_entry': {'scope': scope}} for scope in ('public', 'private'))


@pytest.fixture
def api(tmp_path):
    fixture = servers.Servers(tmp_path, api__nova_network_resources=True, metadata__dhcp_domain='cloud.test')
    fixture.admin(project=base.PROJECT).post('/os-floating-ips-bulk', {'floating_ips_bulk_create': {
        'ip_range': '203.0.113.0/28'}})
    yield fixture
    fixture.close()


def floating(client):
    return client.post('/os-floating-ips', {'pool': 'public'}).json['floating_ip']


def entry(address, kind='A'):
    return {'dns_entry': {'ip': address, 'dns_type': kind}}


def names(api):
    """What a host gets, once as the privileged part takes it."""
    with api.api_db.reader() as conn:
        state = host_load.load(conn, 'host1', str)
    sent = json.loads(json.dumps(host_state.as_json(state)))
    assert validators.state('br-nova', ())(sent).dns_names == state.dns_names == sent.get('dns_names', [])
    return state.dns_names


def test_public_domains_are_an_administrators_and_their_entries_their_projects(api):
    admin, client, stranger = api.admin(project=base.PROJECT), api.client(), api.client(project=OTHER)
    path = DNS + '/Example.org'
    assert client.put(path, PUBLIC).status == 403
    assert admin.put(path, PUBLIC).json == {'domain_entry': {
        'domain': 'example.org', 'scope': 'public', 'project': None, 'availability_zone': None}}
    ours, theirs = floating(client), floating(stranger)
    made = client.put(path + '/entries/Web', entry(ours['ip'])).json
    assert made == {'dns_entry': {'domain': 'example.org', 'id': None, 'ip': ours['ip'], 'name': 'web', 'type': 'A'}}
    assert client.get(path + '/entries/web').json == made
    assert client.get(f'{path}/entries/{ours["ip"]}').json == {'dns_entries': [made['dns_entry']]}
    # another project neither sees nor changes it, nor gives a name to an address of others
    for answer, code in ((stranger.get(path + '/entries/web'), 404), (stranger.delete(path + '/entries/web'), 404),
                         (stranger.get(f'{path}/entries/{ours["ip"]}'), 404),
                         (stranger.put(path + '/entries/web', entry(theirs['ip'])), 409),
                         (stranger.put(path + '/entries/mail', entry(ours['ip'])), 404),
                         (client.delete(path), 403), (stranger.put(path, PRIVATE), 200)):
        assert answer.status == code, answer.body
    assert [row['scope'] for row in stranger.get(DNS).json['domain_entries']] == ['private', 'public']
    assert stranger.delete(path).status == 202           # its own, which comes first
    assert stranger.put(path + '/entries/mail', entry(theirs['ip'])).status == 200
    both = [['', ours['ip'], 'web.example.org'], ['', theirs['ip'], 'mail.example.org']]
    assert names(api) == [['', '', 'example.org'], *sorted(both)]
    assert admin.get(path + '/entries/mail').status == 200
    # an address that is given back takes its names along
    assert client.delete(f'/os-floating-ips/{ours["id"]}').status == 202
    assert client.get(path + '/entries/web').status == 404
    assert names(api) == [['', '', 'example.org'], ['', theirs['ip'], 'mail.example.org']]
    assert admin.delete(path).status == 202 and admin.delete(path).status == 404 and names(api) == []
    assert api.services.network.sent[-1][0] == 'refresh_ports'


def test_public_domain_can_be_limited_to_one_project(api):
    admin, client, stranger = api.admin(project=OTHER), api.client(), api.client(project=OTHER)
    for project, code in ((base.PROJECT, 200), (None, 200), (base.PROJECT, 200)):
        answer = admin.put(DNS + '/example.org', {'domain_entry': {'scope': 'public', 'project': project}})
        assert answer.status == code and answer.json['domain_entry']['project'] == project
    assert stranger.get(DNS).json == {'domain_entries': []}
    assert stranger.put(DNS + '/example.org/entries/a', entry(floating(stranger)['ip'])).status == 404
    assert admin.put(DNS + '/example.org/entries/a', entry(floating(stranger)['ip'])).status == 409
    assert client.put(DNS + '/example.org/entries/a', entry(floating(client)['ip'])).status == 200
    assert admin.put(DNS + '/example.org', {'domain_entry': {'scope': 'public', 'project': OTHER}}).status == 409
    assert admin.get(DNS).json['domain_entries'][0]['project'] == base.PROJECT


def test_a_private_domain_is_resolved_by_its_projects_networks_alone(api):
    client, stranger = api.client(), api.client(project=OTHER)
    path = DNS + '/intern'
    assert client.put(path, PRIVATE).json['domain_entry'] == {
        'domain': 'intern', 'scope': 'private', 'project': base.PROJECT, 'availability_zone': None}
    assert stranger.put(path + '/entries/db', entry('10.0.0.9')).status == 404 == stranger.delete(path).status
    assert client.put(path + '/entries/db', entry('10.0.0.9')).status == 200
    assert client.put(path + '/entries/db', entry('10.0.0.8')).status == 200
    assert client.put(path + '/entries/six', entry('fd00::8', 'AAAA')).json['dns_entry']['type'] == 'AAAA'
    assert names(api) == []                                     # no network of the project is on the host
    with api.api_db.writer() as conn:
        networks.update(conn, t.networks, api.network_id, {'project_id': base.PROJECT})
    assert names(api) == [[api.network_id, '', 'intern'], [api.network_id, '10.0.0.8', 'db.intern'],
                          [api.network_id, 'fd00::8', 'six.intern']]
    with api.api_db.writer() as conn:
        networks.update(conn, t.networks, api.network_id, {'project_id': OTHER})
    assert names(api) == []
    assert client.delete(path + '/entries/db').status == 202 and client.delete(path + '/entries/db').status == 404


def test_a_projects_own_names_come_before_those_of_all():
    state = host_state.HostState([], [], {}, {}, dns_names=[
        ['', '', 'x'], ['', '203.0.113.5', 'a.x'], ['', '203.0.113.6', 'b.x'], ['n1', '', 'y'],
        ['n1', '10.0.0.5', 'a.x']])
    assert host_state.names_in(state, 'n1') == ([('10.0.0.5', 'a.x'), ('203.0.113.6', 'b.x')], ['x', 'y'])
    assert host_state.names_in(state, 'n2') == ([('203.0.113.5', 'a.x'), ('203.0.113.6', 'b.x')], ['x'])


BAD_DOMAINS = ['a..b', '-a.org', 'a_b.org', '203.0.113.5', 'cloud.test', 'x' * 64, '.'.join(['x' * 60] * 4), 'a b',
               'ä.org']


def test_invalid_dns_requests_return_400(api):
    admin, client = api.admin(project=base.PROJECT), api.client()
    for name in BAD_DOMAINS:
        assert client.put(f'{DNS}/{name}', PRIVATE).status == 400, name
    for body in ({}, {'domain_entry': {}}, {'domain_entry': {'scope': 'secret'}},
                 {'domain_entry': {'scope': 'public', 'availability_zone': 'nova'}},
                 {'domain_entry': {'scope': 'private', 'availability_zone': 'nova'}},
                 {'domain_entry': {'scope': 'private', 'project': OTHER}},
                 {'domain_entry': {'scope': 'public', 'project': 'x' * 256}},
                 {'domain_entry': {'scope': 'public', 'more': 1}}):
        assert admin.put(DNS + '/example.org', body).status == 400, body
    assert admin.get(DNS).json == {'domain_entries': []}
    client.put(DNS + '/intern', PRIVATE)
    path = DNS + '/intern/entries/'
    for name, body in (('a.b', entry('10.0.0.1')), ('-a', entry('10.0.0.1')), ('x' * 64, entry('10.0.0.1')),
                       ('a', entry('10.0.0')), ('a', entry('fd00::1%eth0', 'AAAA')), ('a', entry('10.0.0.1', 'AAAA')),
                       ('a', entry('fd00::1')), ('a', entry('10.0.0.1', 'CNAME')), ('a', {}),
                       ('a', {'dns_entry': {'ip': '10.0.0.1'}}), ('a', {'dns_entry': {'dns_type': 'A'}}),
                       ('10.0.0.1', entry('10.0.0.1'))):
        assert client.put(path + name, body).status == 400, (name, body)
    assert names(api) == []


@pytest.mark.parametrize('bad', [
    ['n', '10.0.0.1', 'a.x\n10.0.0.2 b.x'], ['n', '10.0.0.1', ''], ['n', '10.0.0.1/24', 'a.x'],
    ['n', 'fd00::1%eth0', 'a.x'], ['n n', '10.0.0.1', 'a.x'], ['n', '10.0.0.1', 'a b'], ['n', '10.0.0.1', 'a..x'],
    ['n', '10.0.0.1', 'a' * 254], ['n', '', 'x/#/'], ['n', 'x'], 'nax', ['n', None, 'a.x']])
def test_privileged_process_refuses_invalid_dns_names(bad):
    state = host_state.HostState([], [], {}, {}, dns_names=[['', '', 'x'], ['n', 'fd00::1', 'a.x']])
    given = host_state.as_json(state)
    assert validators.state('br-nova', ())(given) == state
    with pytest.raises(ValueError):
        validators.state('br-nova', ())({**given, 'dns_names': [bad]})


def test_quotas_limit_domains_and_entries(tmp_path):
    fixture = servers.Servers(tmp_path, api__nova_network_resources=True, network__quota='dns_domain:1,dns_entry:1')
    client = fixture.client()
    assert [client.put(f'{DNS}/{name}', PRIVATE).status for name in ('a.x', 'a.x', 'b.x')] == [200, 200, 403]
    assert [client.put(f'{DNS}/a.x/entries/{name}', entry('10.0.0.1')).status for name in 'aab'] == [200, 200, 403]
    refused = client.put(f'{DNS}/a.x/entries/b', entry('10.0.0.1')).fault[2]
    assert refused == 'Quota exceeded for dns_entries: Requested 1, but already used 1 of 1 dns_entries'
    fixture.close()


def test_readers_look_and_change_nothing(api):
    client, reader = api.client(), api.client(roles=('reader',))
    client.put(DNS + '/intern', PRIVATE)
    assert len(reader.get(DNS).json['domain_entries']) == 1
    for answer in (reader.put(DNS + '/other', PRIVATE), reader.delete(DNS + '/intern'),
                   reader.put(DNS + '/intern/entries/a', entry('10.0.0.1')), reader.delete(DNS + '/intern/entries/a')):
        assert answer.status == 403


def test_dns_entry_of_a_floating_ip_of_another_project_is_not_resolved(api):
    """An entry whose project has the floating address no more, because a service of before names gave it back."""
    caller = context.RequestContext(user_id='u', project_id=base.PROJECT)
    api.admin(project=base.PROJECT).put(DNS + '/example.org', PUBLIC)
    given = floating(api.client())
    dns.put_entry(api.services.conf, api.api_db, caller, 'example.org', 'a', given['ip'], 'A')
    with api.api_db.writer() as conn:
        networks.update(conn, t.floating_ips, given['id'], {'project_id': OTHER})
    assert names(api) == [['', '', 'example.org']]
    with api.api_db.reader() as conn:
        assert db_dns.entries(conn, dns.find(conn, caller, 'example.org')['id'])
