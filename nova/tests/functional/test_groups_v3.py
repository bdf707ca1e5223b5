"""/v3.0/{tenant_id}/groups in JSON and in XML: the server groups with every attribute that their design gives them."""
import uuid
from xml.etree import ElementTree

import pytest

from nova.api import group_xml
from nova.tests import races
from nova.tests.functional import base
from nova.tests.functional import cloud as whole
from nova.tests.functional import servers
from nova.tests.support.server_groups import boot

OTHER = 'c' * 32
ALL = ['affinity', 'soft-affinity', 'network-proximity', 'host-capabilities']


@pytest.fixture
def cloud(tmp_path):
    fixture = servers.Servers(tmp_path)
    fixture.application = group_xml.Filter(fixture.application, fixture.conf.api.max_request_body_size)
    fixture.application.services = fixture.services
    yield fixture
    fixture.close()


def of(cloud, project=base.PROJECT, **who):
    """A client whose paths begin below /v3.0/{its project}."""
    return cloud.client(project=project, prefix=f'/v3.0/{project}', **who)


def make(client, **fields):
    answer = client.post('/groups', {'group': fields})
    assert answer.status == 201, answer.body
    return answer.json['group']


# ---- JSON -----------------------------------------------------------------------

def test_group_can_be_created_read_updated_and_deleted(cloud):
    client = of(cloud)
    answer = client.post('/groups', {'group': {'name': 'db', 'policies': ['host-capabilities', 'anti-affinity'],
                                               'metadata': {'tier': '1'}}})
    made = answer.json['group']
    assert answer.status == 201
    assert answer.headers['location'] == f'http://cloud.test:8774/v3.0/{base.PROJECT}/groups/{made["id"]}'
    assert made == {'id': made['id'], 'name': 'db', 'tenant_id': base.PROJECT, 'metadata': {'tier': '1'},
                    'policies': ['anti-affinity', 'host-capabilities'], 'members': []}
    assert client.get('/groups/' + made['id']).json == {'group': made}
    assert client.get('/groups').json == {'groups': [made]}
    changed = client.put('/groups/' + made['id'], {'group': {'name': None, 'policies': [], 'metadata': None}})
    assert changed.status == 200
    assert changed.json['group'] == {**made, 'name': None, 'policies': [], 'metadata': {}}
    answer = client.delete('/groups/' + made['id'])
    assert (answer.status, answer.body) == (204, b'')
    assert client.get('/groups/' + made['id']).status == client.delete('/groups/' + made['id']).status == 404


def test_everything_has_a_default(cloud):
    made = make(of(cloud))
    assert made == {'id': made['id'], 'name': None, 'tenant_id': base.PROJECT, 'policies': [], 'metadata': {},
                    'members': []}


def test_group_may_have_a_requested_id(cloud):
    client, wanted = of(cloud), str(uuid.uuid4())
    assert make(client, id=wanted)['id'] == wanted
    assert client.post('/groups', {'group': {'id': wanted}}).status == 409
    assert of(cloud, OTHER).post('/groups', {'group': {'id': wanted}}).status == 409
    answers = races.at_once(*[lambda: client.post('/groups', {'group': {'id': str(uuid.UUID(int=7))}})] * 4)
    assert sorted(answer.status for answer in answers) == [201] + [409] * 3


@pytest.mark.parametrize('group', [
    {'policies': ['affinity', 'anti-affinity']}, {'policies': ['soft-affinity', 'soft-anti-affinity']},
    {'policies': ['other']}, {'policies': ['affinity', 'affinity']}, {'policies': 'affinity'}, {'policies': None},
    {'name': ''}, {'name': 'x' * 256}, {'name': 7}, {'metadata': {'a': 1}}, {'metadata': []}, {'members': []},
    {'id': 'x'}, {'id': str(uuid.uuid4()).upper()}, {'id': uuid.uuid4().hex}, {'tenant_id': None},
    {'tenant_id': 'a/b'}, {'rules': {}}])
def test_invalid_group_is_refused(cloud, group):
    client = of(cloud)
    assert client.post('/groups', {'group': group}).status == 400
    made = make(client)
    assert client.put('/groups/' + made['id'], {'group': group}).status == 400
    assert client.get('/groups/' + made['id']).json['group'] == made


def test_both_resources_show_the_same_groups(cloud):
    client, old = of(cloud), cloud.client()
    several, none, one = make(client, policies=ALL, metadata={'k': 'v'}), make(client), make(client, policies=ALL[2:3])
    theirs = old.post('/os-server-groups', {'server_group': {'name': 'g', 'policies': ['affinity']}}).json[
        'server_group']
    assert [group['id'] for group in client.get('/groups').json['groups']] == [
        group['id'] for group in old.get('/os-server-groups').json['server_groups']] == [
            several['id'], none['id'], one['id'], theirs['id']]
    for made, first, more in ((several, ['affinity'], ALL), (none, [], []), (one, ['network-proximity'], None)):
        path = '/os-server-groups/' + made['id']
        shown = old.get(path).json['server_group']
        assert (shown['policies'], shown.get('nova:policies'), shown['name']) == (first, more, '')
        shown = old.get(path, version='2.64').json['server_group']
        assert (shown['policy'], shown.get('nova:policies')) == ((first or [''])[0], more)
        assert old.get(path + '/metadata').json == {'metadata': made['metadata']}
    assert client.get('/groups/' + theirs['id']).json['group'] == {
        'id': theirs['id'], 'name': 'g', 'tenant_id': base.PROJECT, 'policies': ['affinity'], 'metadata': {},
        'members': []}
    assert 'nova:policies' not in old.get('/os-server-groups/' + theirs['id']).json['server_group']


def test_members_and_what_stays_with_them(cloud):
    client = of(cloud)
    group = make(client, policies=['anti-affinity', 'host-capabilities'])
    path = '/groups/' + group['id']
    member = boot(cloud, group['id']).json['server']['id']
    assert client.get(path).json['group']['members'] == [member]
    admin = of(cloud, roles=('admin', 'member', 'reader'))
    for change in ({'policies': []}, {'policies': ['anti-affinity']}, {'tenant_id': OTHER},
                   {'metadata': {'capabilities:x': '1'}}):
        assert admin.put(path, {'group': change}).status == 409, change
    assert client.put(path, {'group': {'members': []}}).status == 400
    assert client.put(path, {'group': {'name': 'n', 'policies': group['policies'], 'metadata': {'a': 'b'},
                                       'tenant_id': base.PROJECT}}).status == 200


def test_rules_of_a_group_are_kept_until_its_policy_changes(cloud):
    client, old = of(cloud), cloud.client(version='2.64')
    made = old.post('/os-server-groups', {'server_group': {
        'name': 'g', 'policy': 'anti-affinity', 'rules': {'max_server_per_host': 2}}}).json['server_group']['id']

    def rules():
        return old.get('/os-server-groups/' + made).json['server_group']['rules']
    assert client.put('/groups/' + made, {'group': {'policies': ['anti-affinity', 'network-proximity']}}).status == 200
    assert rules() == {'max_server_per_host': 2}
    assert client.put('/groups/' + made, {'group': {'policies': ['network-proximity']}}).status == 200
    assert rules() == {}


def test_groups_are_visible_and_writable_in_their_project_only(cloud):
    client, made = of(cloud), None
    made = make(client, name='mine')
    stranger = of(cloud, OTHER)
    below_mine = cloud.client(project=OTHER, prefix=f'/v3.0/{base.PROJECT}')
    for who in (stranger, below_mine):
        for method, body in (('GET', None), ('PUT', {'group': {'name': 'x'}}), ('DELETE', None)):
            assert who.request(method, '/groups/' + made['id'], body).status == 404, method
    assert below_mine.get('/groups').status == below_mine.post('/groups', {'group': {}}).status == 404
    assert stranger.get('/groups').json == {'groups': []}
    for body in ({'group': {'tenant_id': OTHER}}, ):
        assert client.post('/groups', body).status == 403
        assert client.put('/groups/' + made['id'], body).status == 403
    reader = of(cloud, roles=('reader',))
    assert reader.get('/groups').status == reader.get('/groups/' + made['id']).status == 200
    assert reader.post('/groups', {'group': {}}).status == reader.delete('/groups/' + made['id']).status == 403
    assert reader.put('/groups/' + made['id'], {'group': {'name': 'x'}}).status == 403
    assert cloud.client(project=None, prefix='/v3.0/' + base.PROJECT).get('/groups').status == 401
    assert client.get('/groups/' + made['id']).json['group'] == made
    for path in ('/v3.0', '/v3.0/', f'/v3.0/{base.PROJECT}', f'/v3.0/{base.PROJECT}/servers',
                 f'/v3.0/{base.PROJECT}/groups/{made["id"]}/x', f'/v3.0/{base.PROJECT}/groups/x'):
        assert cloud.client(prefix='').get(path).status == 404, path
    assert client.request('PATCH', '/groups/' + made['id'], {}).status == 405


def test_an_administrator_gives_a_group_away(cloud):
    admin = cloud.admin(project='d' * 32, prefix=f'/v3.0/{base.PROJECT}')
    made = make(admin, name='theirs')
    assert made['tenant_id'] == base.PROJECT
    assert of(cloud).get('/groups').json['groups'] == [made]
    assert make(admin, tenant_id=OTHER)['tenant_id'] == OTHER
    given = admin.put('/groups/' + made['id'], {'group': {'tenant_id': OTHER}})
    assert given.status == 200 and given.json['group'] == {**made, 'tenant_id': OTHER}
    assert of(cloud).get('/groups').json == {'groups': []} and admin.get('/groups/' + made['id']).status == 404
    assert len(of(cloud, OTHER).get('/groups').json['groups']) == 2


def test_quotas_limit_groups_and_metadata(tmp_path):
    cloud = servers.Servers(tmp_path, quota__server_groups=2, quota__metadata_items=1)
    admin, client = of(cloud, roles=('admin', 'member')), of(cloud, OTHER)
    make(client), make(client)
    assert client.post('/groups', {'group': {}}).status == 403
    made = make(admin)['id']
    answer = admin.put('/groups/' + made, {'group': {'tenant_id': OTHER}})
    assert answer.status == 403 and 'server groups' in answer.fault[2]
    two = {'metadata': {'a': '', 'b': ''}}
    assert admin.put('/groups/' + made, {'group': two}).status == admin.post('/groups', {'group': two}).status == 403
    cloud.close()


def test_groups_are_paged(cloud):
    client = of(cloud)
    ids = [make(client)['id'] for _ in range(4)]
    assert [group['id'] for group in client.get('/groups?limit=2&offset=1').json['groups']] == ids[1:3]
    assert client.get('/groups?limit=x').status == client.get('/groups?other=1').status == 400


def test_requests_are_counted(tmp_path):
    cloud = servers.Servers(tmp_path, api__rate_limits=['POST groups ^/groups 2 MINUTE'])
    client = of(cloud)
    assert [client.post('/groups', {'group': {}}).status for _ in range(3)] == [201, 201, 413]
    cloud.close()


def test_a_repeated_request_makes_one_group(cloud):
    client, once = of(cloud), {'Idempotency-Key': str(uuid.uuid4())}
    answers = [client.post('/groups', {'group': {'name': 'g'}}, headers=once) for _ in range(2)]
    assert answers[0].json == answers[1].json and len(client.get('/groups').json['groups']) == 1


# ---- XML ------------------------------------------------------------------------

IN_XML = {'CONTENT_TYPE': 'application/xml', 'HTTP_ACCEPT': 'application/xml'}


def xml(answer):
    assert answer.headers['content-type'] == 'application/xml'
    assert int(answer.headers['content-length']) == len(answer.body)
    return ElementTree.fromstring(answer.body)


def said(element):
    """What a <group> says, as JSON has it."""
    return {**dict.fromkeys(('name',)), **element.attrib,
            'policies': [each.text for each in element.find('policies')],
            'metadata': {each.get('key'): each.text or '' for each in element.find('metadata')},
            'members': [each.text for each in element.find('members')]}


def test_group_is_managed_in_xml(cloud):
    client = of(cloud)
    answer = client.post('/groups', raw=b'''<?xml version="1.0" encoding="UTF-8"?>
        <group name="d&amp;b &#xe4;">
        <policies><policy>network-proximity</policy><policy>anti-affinity</policy></policies>
        <metadata><meta key="a">1 &lt; 2</meta><meta key="b"/></metadata></group>''', environ=IN_XML)
    made = said(xml(answer))
    assert answer.status == 201 and made['id'] in answer.headers['location']
    assert made == client.get('/groups/' + made['id']).json['group'] == {
        'id': made['id'], 'name': 'd&b ä', 'tenant_id': base.PROJECT, 'metadata': {'a': '1 < 2', 'b': ''},
        'policies': ['anti-affinity', 'network-proximity'], 'members': []}
    changed = client.put('/groups/' + made['id'], environ=IN_XML,
                         raw='<group xmlns="urn:x" name="ö"><policies/></group>'.encode('utf-16'))
    assert said(xml(changed)) == {**made, 'name': 'ö', 'policies': []}
    member = boot(cloud, made['id']).json['server']['id']
    listed = xml(client.get('/groups.xml'))
    assert listed.tag == 'groups' and [said(each)['members'] for each in listed] == [[member]]
    shown = client.get(f'/groups/{made["id"]}.xml')
    assert said(xml(shown))['members'] == [member]
    head = client.request('HEAD', f'/groups/{made["id"]}.xml')
    assert (head.body, head.headers['content-length']) == (b'', shown.headers['content-length'])
    answer = client.delete(f'/groups/{made["id"]}.xml')
    assert (answer.status, answer.body) == (204, b'')


def test_faults_are_returned_in_xml(cloud):
    fault = xml(of(cloud).get(f'/groups/{uuid.uuid4()}.xml'))
    assert (fault.tag, fault.get('code')) == ('itemNotFound', '404') and 'not be found' in fault.find('message').text
    answer = of(cloud).post('/groups', raw=b'<group', environ=IN_XML)
    assert xml(answer).tag == 'badRequest' and answer.status == 400 and answer.headers['x-openstack-request-id']


@pytest.mark.parametrize(('suffix', 'accept', 'in_xml'), [
    ('', None, False), ('', '*/*', False), ('', 'text/html', False), ('', 'application/xml', True),
    ('', 'text/xml', True), ('', 'application/json', False), ('', 'application/json, application/xml', False),
    ('', 'application/xml;q=0.5, application/json;q=0.4', True), ('', 'application/xml;q=0', False),
    ('', 'application/xml;q=0.1,*/*', False), ('', 'text/html,application/xml;q=0.9,*/*;q=0.8', True),
    ('', 'application/xml;q=x', False), ('.xml', 'application/json', True), ('.json', 'application/xml', True),
    ('', ',;=,q', False), ('.xml', None, True), ('.json', None, False)])
def test_response_format_follows_suffix_and_accept_header(cloud, suffix, accept, in_xml):
    answer = of(cloud).get('/groups' + suffix, environ={'HTTP_ACCEPT': accept} if accept else {})
    assert answer.status == 200 and 'Accept' in answer.headers['vary']
    assert answer.headers['content-type'] == ('application/xml' if in_xml else 'application/json')


def test_request_and_response_formats_are_independent(cloud):
    """The form of a request says nothing about that of its answer."""
    client = of(cloud)
    assert client.post('/groups', raw=b'<group/>', environ={'CONTENT_TYPE': 'text/xml; charset="utf-8"'}).json['group']
    assert said(xml(client.post('/groups', {'group': {}}, environ={'HTTP_ACCEPT': 'text/xml'})))['policies'] == []
    assert client.post('/groups', raw=b'<group/>').status == 400
    assert client.post('/groups', raw=b'a=b', environ={'CONTENT_TYPE': 'text/plain'}).status == 415
    # nowhere else
    assert cloud.client().get('/os-server-groups', environ={'HTTP_ACCEPT': 'application/xml'}).json
    assert cloud.client().post('/os-server-groups', raw=b'<group/>', environ=IN_XML).status == 415


def test_characters_invalid_in_xml_are_replaced(cloud):
    """JSON may: the character is replaced, and the document is one."""
    client = of(cloud)
    made = make(client, metadata={'k': 'a\x01b\ufffec\r\n\td<]]>&"'})
    assert said(xml(client.get(f'/groups/{made["id"]}.xml')))['metadata'] == {'k': 'a\ufffdb\ufffdc\r\n\td<]]>&"'}


BOMB = '<!DOCTYPE g [<!ENTITY a0 "ha">%s]><group name="&a9;"/>' % ''.join(
    f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(9))
REFUSED = {
    'bomb': BOMB,
    'quadratic': '<!DOCTYPE g [<!ENTITY a "%s">]><group>%s</group>' % ('x' * 2000, '&a;' * 2000),
    'file': '<!DOCTYPE g [<!ENTITY f SYSTEM "file:///etc/hostname">]><group name="g"><policies><policy>&f;</policy>'
            '</policies></group>',
    'external dtd': '<!DOCTYPE group SYSTEM "http://127.0.0.1:1/x.dtd"><group/>',
    'public dtd': '<!DOCTYPE group PUBLIC "-//x//y" "http://127.0.0.1:1/x.dtd"><group/>',
    'parameter entity': '<!DOCTYPE g [<!ENTITY % p SYSTEM "http://127.0.0.1:1/x">%p;]><group/>',
    'empty doctype': '<!DOCTYPE group><group/>',
    'unknown entity': '<group name="&x;"/>',
    'deep': '<group>' + '<policies>' * 5000 + '</policies>' * 5000 + '</group>',
    'many': '<group><policies>' + '<policy/>' * 5000 + '</policies></group>',
    'another root': '<groups/>', 'two roots': '<group/><group/>', 'nothing': ' ', 'no end': '<group><policies>',
    'text': '<group>x</group>', 'unknown element': '<group><name>x</name></group>',
    'unknown attribute': '<group other="x"/>', 'attribute twice': '<group name="a" name="b"/>',
    'attribute and element': '<group policies="affinity"><policies/></group>',
    'element twice': '<group><policies/><policies/></group>', 'members': '<group><members/></group>',
    'policies of nothing': '<group><policies><meta/></policies></group>',
    'deeper policy': '<group><policies><policy><policy/></policy></policies></group>',
    'attributes': '<group><policies a="b"/></group>', 'meta without key': '<group><metadata><meta/></metadata></group>',
    'key twice': '<group><metadata><meta key="a"/><meta key="a"/></metadata></group>',
    'no unicode': b'<group name="\xff"/>', 'NUL': b'<group name="\0"/>', 'NUL reference': '<group name="&#0;"/>',
    'encoding': '<?xml version="1.0" encoding="utf-7"?><group/>',
    'encoding 2': "<?xml version='1.0' encoding='?'?><group/>",
    'encoding 3': "<?xml version='1.0' encoding='rot13'?><group/>", 'json': '{"group": {}}',
}


@pytest.mark.parametrize('name', REFUSED)
def test_invalid_xml_is_refused(cloud, name):
    client, raw = of(cloud), REFUSED[name]
    raw = raw.encode() if isinstance(raw, str) else raw
    answer = client.post('/groups', raw=raw, environ=IN_XML)
    assert answer.status == 400 and xml(answer).tag == 'badRequest'
    assert client.get('/groups').json == {'groups': []}


def test_too_long_xml_is_refused(cloud):
    most = cloud.conf.api.max_request_body_size
    raw = b'<group>' + b' ' * most + b'</group>'
    assert of(cloud).post('/groups', raw=raw, environ=IN_XML).status == 413
    assert of(cloud).post('/groups', raw=raw, environ={
        **IN_XML, 'CONTENT_LENGTH': '', 'wsgi.input_terminated': True}).status == 413
    for charset in ('nonsense', 'utf-7', '\udcff'):
        assert of(cloud).post('/groups', raw=b'<group/>', environ={
            **IN_XML, 'CONTENT_TYPE': f'application/xml; charset={charset}'}).status in (201, 400)


# ---- a whole cloud ----------------------------------------------------------------

def test_groups_api_works_behind_the_pipeline(tmp_path):
    """Behind the pipeline of the paste file, with tokens; both faces of the API serve it."""
    with whole.running(tmp_path, ['host1', 'host2']) as cloud:
        client, admin = cloud.client(version='2.64'), cloud.admin()
        image_id = admin.upload_image(visibility='public')

        def ask(method, path, data=None, token=None, **headers):
            with client.session.request(method, cloud.url + path, data=data, timeout=30, headers={
                    'X-Auth-Token': client.token if token is None else token, 'Content-Type': 'application/xml',
                    'Accept': 'application/xml', **headers}) as answer:
                assert answer.content is not None
                return answer
        root = f'/v3.0/{client.project_id}/groups'
        refused = ask('GET', root, token='gAAAAA')
        assert refused.status_code == 401 and ElementTree.fromstring(refused.content).tag == 'unauthorized'
        assert refused.headers['www-authenticate'] and refused.headers['content-type'] == 'application/xml'
        assert 'unauthorized' in ask('GET', root, token='gAAAAA', Accept='application/json').json()
        made = ask('POST', root, '<group name="web"><policies><policy>anti-affinity</policy></policies></group>')
        assert made.status_code == 201 and made.headers['content-type'] == 'application/xml'
        group = said(ElementTree.fromstring(made.content))
        assert (group['name'], group['policies']) == ('web', ['anti-affinity'])
        assert made.headers['location'] == f'{cloud.url}{root}/{group["id"]}'
        server = client.post('/servers', {
            'server': {'name': 's', 'imageRef': image_id, 'flavorRef': '42', 'networks': 'none'},
            'os:scheduler_hints': {'group': 'web'}}).json()['server']['id']
        client.wait_for(server)
        shown = ask('GET', f'/compute{root}/{group["id"]}')
        assert said(ElementTree.fromstring(shown.content))['members'] == [server]
        assert ask('PUT', f'{root}/{group["id"]}', '<group><policies/></group>').status_code == 409
        former = f'/v1.0/{client.project_id}/groups'           # the first design's version, and its word for PUT
        changed = ask('UPDATE', f'{former}/{group["id"]}', '<group name="www"/>')
        assert changed.status_code == 200 and said(ElementTree.fromstring(changed.content))['name'] == 'www'
        assert len(ElementTree.fromstring(ask('GET', former).content)) == 1
        assert ask('GET', former, token='gAAAAA').status_code == 401
        assert ask('UPDATE', '/compute/v2.1/servers').status_code == 405
        assert ask('GET', f'/v3.0/{admin.project_id}/groups').status_code == 404
        for token in ('', 'x'):
            assert ask('GET', root, token=token).status_code == 401
        assert ask('POST', root, BOMB).status_code == 400
        assert client.get('/os-server-groups/' + group['id']).json()['server_group']['policy'] == 'anti-affinity'
        client.delete('/servers/' + server)
        client.wait_for(server, 'DELETED')
        assert ask('DELETE', f'{root}/{group["id"]}').status_code == 204
        assert ask('GET', root).content.endswith(b'<groups/>')
        assert 'v3.0' not in str(client.get('/identity/v3/auth/catalog').json())
