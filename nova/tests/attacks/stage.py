"""Where attacks happen: two projects that do not know each other, and what the victim has."""
import contextlib
import secrets
import time
from collections.abc import Iterator

import requests

from nova.tests.attacks import base
from nova.tests.attacks.base import Session

FACES = {'compute': 'compute', 'image': 'image', 'network': 'network', 'block-storage': 'volume', 'volumev3': 'volume'}
BOOT_S = 120


class Stage:
    """
    attacker, victim, anonymous   Session; the first two are members of a project each
    outsiders                     {name: Session} of tokens without a project: 'domain', of a member of the domain, and
                                  'unscoped'
    things    {kind: id} of what the victim has
    own       {kind: id} of what the attacker has; 'network' may be one that all share
    """

    def __init__(self, attacker: Session, victim: Session, anonymous: Session, outsiders: dict[str, Session]):
        self.attacker, self.victim, self.anonymous, self.outsiders = attacker, victim, anonymous, outsiders
        self.has_volumes = 'volume' in attacker.urls
        self.things, self.own = {}, {}


def login(auth_url: str, auth: dict, verify) -> tuple[Session, dict]:
    """(Session, token document) for the ``auth`` part of a login.

    :raises RuntimeError: it was refused
    """
    reply = requests.post(auth_url + '/auth/tokens', json={'auth': auth}, timeout=30, verify=verify)
    if reply.status_code != 201:
        raise RuntimeError(f'No login at {auth_url}: {reply.status_code} {reply.text[:300]}')
    token = reply.json()['token']
    urls = {'identity': auth_url}
    for service in token.get('catalog', ()):
        if service['type'] in FACES:
            urls.update((FACES[service['type']], endpoint['url'].rstrip('/')) for endpoint in service['endpoints']
                        if endpoint['interface'] == 'public')
    for face, version in (('image', '/v2'), ('network', '/v2.0')):
        if face in urls:
            urls[face] = urls[face].removesuffix(version) + version
    return Session(urls, reply.headers['X-Subject-Token'], (token.get('project') or {}).get('id'),
                   token['user']['id'], verify), token


def by_password(user: str, password: str, scope) -> dict:
    """The ``auth`` part of a login by name in the default domain.

    :param scope: as the Identity API has it, or a project's name
    """
    if isinstance(scope, str) and scope != 'unscoped':
        scope = {'project': {'name': scope, 'domain': {'id': 'default'}}}
    return {'identity': {'methods': ['password'], 'password': {
        'user': {'name': user, 'password': password, 'domain': {'id': 'default'}}}}, 'scope': scope}


@contextlib.contextmanager
def built(auth_url: str, auth: dict, verify=True) -> Iterator[Stage]:
    """A Stage on a cloud; what it made is removed at the end.

    :param auth: the ``auth`` part of an administrator's login
    """
    admin, _ = login(auth_url, auth, verify)
    made = []
    try:
        role = admin.make('identity', '/roles?name=member', None, method='GET')['roles'][0]['id']
        sessions, outsiders = {}, {}
        for kind in ('attacker', 'victim', 'outsider'):
            name, password = f'{kind}-{secrets.token_hex(4)}', secrets.token_urlsafe(16) + 'aA1!'
            project = admin.make('identity', '/projects', {'project': {
                'name': name, 'domain_id': 'default'}})['project']
            made.append(f'/projects/{project["id"]}')
            user = admin.make('identity', '/users', {'user': {'name': name, 'password': password,
                                                              'domain_id': 'default'}})['user']
            made.append(f'/users/{user["id"]}')
            admin.make('identity', f'/projects/{project["id"]}/users/{user["id"]}/roles/{role}', None, method='PUT')
            sessions[kind], _ = login(auth_url, by_password(name, password, name), verify)
        attacker, victim = sessions['attacker'], sessions['victim']
        admin.make('identity', f'/domains/default/users/{user["id"]}/roles/{role}', None, method='PUT')
        for kind, scope in (('domain', {'domain': {'id': 'default'}}), ('unscoped', 'unscoped')):
            found, _ = login(auth_url, by_password(name, password, scope), verify)
            outsiders[kind] = Session(attacker.urls, found.token, None, found.user_id, verify)
        stage = Stage(attacker, victim, Session(attacker.urls, verify=verify), outsiders)
        try:
            furnish(stage)
            yield stage
        finally:
            _clear(stage)
    finally:
        for path in reversed(made):
            admin.send('DELETE', 'identity', path)


def furnish(stage: Stage) -> None:
    """Give both projects what attacks are about."""
    flavors = stage.victim.make('compute', '/flavors/detail?sort_key=memory_mb', None, method='GET')['flavors']
    flavor = min(flavors, key=lambda row: (row['ram'], row['disk']))['id']
    for session, things in ((stage.victim, stage.things), (stage.attacker, stage.own)):
        things['project'], things['user'], things['flavor'] = session.project_id, session.user_id, flavor
        things['image'] = session.make('image', '/images', {
            'name': 'private', 'disk_format': 'raw', 'container_format': 'bare', 'visibility': 'private'})['id']
        session.make('image', f'/images/{things["image"]}/file', None, method='PUT', data=b'secret!!' * 4096,
                     headers={'Content-Type': 'application/octet-stream'})
        networks = _own_network(session, things)
        if session is stage.attacker:
            things['network'] = networks
        things['port'] = session.make('network', '/ports', {'port': {'network_id': networks}})['port']['id']
        group = session.make('network', '/security-groups', {'security_group': {'name': 'mine'}})['security_group']
        things['security_group'], things['rule'] = group['id'], group['security_group_rules'][0]['id']
        things['server_group'] = session.make('compute', '/os-server-groups', {
            'server_group': {'name': 'mine', 'policy': 'anti-affinity'}})['server_group']['id']
        things['keypair'] = session.make('compute', '/os-keypairs', {
            'keypair': {'name': f'key-{secrets.token_hex(4)}', 'type': 'ssh'}}, version='2.2')['keypair']['name']
        if stage.has_volumes:
            things['volume'] = session.make('volume', '/volumes', {'volume': {'size': 1}})['volume']['id']
        things['server'] = session.make('compute', '/servers', {'server': {
            'name': 'mine', 'imageRef': things['image'], 'flavorRef': flavor, 'networks': 'none',
            'metadata': {'key': 'value'}, 'user_data': 'c2VjcmV0'}}, version='2.37')['server']['id']
    shared = stage.attacker.make('network', '/networks?shared=true', None, method='GET')['networks']
    stage.own['others_network'] = shared[0]['id'] if shared else stage.things['network']
    for session, things in ((stage.victim, stage.things), (stage.attacker, stage.own)):
        _until(lambda: session.make('compute', f'/servers/{things["server"]}', None,
                                    method='GET')['server']['status'] != 'BUILD')
        if stage.has_volumes:
            _until(lambda: session.make('volume', f'/volumes/{things["volume"]}', None,
                                        method='GET')['volume']['status'] == 'available')
            things['snapshot'] = session.make('volume', '/snapshots', {'snapshot': {
                'volume_id': things['volume']}})['snapshot']['id']
        found = session.make('compute', f'/servers/{things["server"]}/os-instance-actions', None, method='GET')
        things['request'] = found['instanceActions'][0]['request_id']


def _own_network(session: Session, things: dict) -> str:
    """The id of a network that this project can use: one of its own, or where only administrators make networks one
    that all share."""
    answer = session.send('POST', 'network', '/networks', {'network': {'name': 'inside'}})
    if answer.status == 201:
        things['network'] = base.document(answer)['network']['id']
        things['subnet'] = session.make('network', '/subnets', {'subnet': {
            'network_id': things['network'], 'cidr': '10.99.0.0/24', 'ip_version': 4}})['subnet']['id']
        return things['network']
    return session.make('network', '/networks', None, method='GET')['networks'][0]['id']


def _until(done) -> None:
    deadline = time.monotonic() + BOOT_S
    while not done():
        if time.monotonic() > deadline:
            raise RuntimeError('What the attacks need was not made in time.')
        time.sleep(0.1)


# kind: (face, path), in the order in which they go
_GONE = {'server': ('compute', '/servers/{}'), 'snapshot': ('volume', '/snapshots/{}'),
         'volume': ('volume', '/volumes/{}'), 'port': ('network', '/ports/{}'), 'subnet': ('network', '/subnets/{}'),
         'network': ('network', '/networks/{}'), 'security_group': ('network', '/security-groups/{}'),
         'server_group': ('compute', '/os-server-groups/{}'), 'keypair': ('compute', '/os-keypairs/{}'),
         'image': ('image', '/images/{}')}


def _clear(stage: Stage) -> None:
    for session, things in ((stage.victim, stage.things), (stage.attacker, stage.own)):
        for kind, (face, path) in _GONE.items():
            if kind not in things:
                continue
            path = path.format(things[kind])
            if 200 <= session.send('DELETE', face, path).status < 300:       # what all share stays
                with contextlib.suppress(RuntimeError):
                    _until(lambda: session.send('GET', face, path).status == 404)
