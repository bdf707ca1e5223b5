"""What belongs to another project: by its path, and named in a body (class E)."""
from collections.abc import Iterator

from nova.tests.attacks import base
from nova.tests.attacks.base import Attack

# (kind, face, method, path with {} for the id, body)
PATHS = (
    *(('server', 'compute', 'GET', '/servers/{}' + tail, None) for tail in (
        '', '/metadata', '/metadata/key', '/ips', '/ips/private', '/os-interface', '/os-volume_attachments',
        '/os-security-groups', '/os-instance-actions', '/os-server-password', '/tags', '/tags/x', '/topology',
        '/diagnostics', '/os-console-screenshot', '/os-metrics', '/migrations',
        '/os-volume_attachments/' + base.MISSING, '/os-interface/' + base.MISSING,
        '/shares', '/shares/' + base.MISSING)),
    ('server', 'compute', 'PUT', '/servers/{}', {'server': {'name': 'taken'}}),
    ('server', 'compute', 'DELETE', '/servers/{}', None),
    ('server', 'compute', 'PUT', '/servers/{}/metadata', {'metadata': {'a': 'b'}}),
    ('server', 'compute', 'POST', '/servers/{}/metadata', {'metadata': {'a': 'b'}}),
    ('server', 'compute', 'PUT', '/servers/{}/metadata/key', {'meta': {'key': 'b'}}),
    ('server', 'compute', 'DELETE', '/servers/{}/metadata/key', None),
    ('server', 'compute', 'PUT', '/servers/{}/tags', {'tags': ['a']}),
    ('server', 'compute', 'PUT', '/servers/{}/tags/a', None),
    ('server', 'compute', 'DELETE', '/servers/{}/tags', None),
    ('server', 'compute', 'DELETE', '/servers/{}/tags/a', None),
    ('server', 'compute', 'DELETE', '/servers/{}/os-server-password', None),
    ('server', 'compute', 'POST', '/servers/{}/os-interface', {}),
    ('server', 'compute', 'DELETE', '/servers/{}/os-interface/' + base.MISSING, None),
    ('server', 'compute', 'POST', '/servers/{}/os-volume_attachments',
     {'volumeAttachment': {'volumeId': base.MISSING}}),
    ('server', 'compute', 'DELETE', '/servers/{}/os-volume_attachments/' + base.MISSING, None),
    ('server', 'compute', 'POST', '/servers/{}/remote-consoles', {'remote_console': {'protocol': 'vnc',
                                                                                     'type': 'novnc'}}),
    ('image', 'image', 'GET', '/images/{}', None), ('image', 'image', 'GET', '/images/{}/file', None),
    ('image', 'image', 'GET', '/images/{}/members', None), ('image', 'image', 'DELETE', '/images/{}', None),
    ('image', 'image', 'PUT', '/images/{}/file', None),
    ('image', 'image', 'POST', '/images/{}/members', {'member': 'me'}),
    ('image', 'image', 'PUT', '/images/{}/tags/x', None), ('image', 'image', 'DELETE', '/images/{}/tags/x', None),
    ('image', 'image', 'POST', '/images/{}/actions/deactivate', None),
    ('image', 'compute', 'GET', '/images/{}', None), ('image', 'compute', 'GET', '/images/{}/metadata', None),
    *((kind, 'network', method, f'/{path}/{{}}', body) for kind, path, name in (
        ('network', 'networks', 'network'), ('subnet', 'subnets', 'subnet'), ('port', 'ports', 'port'),
        ('security_group', 'security-groups', 'security_group'))
      for method, body in (('GET', None), ('DELETE', None), ('PUT', {name: {'name': 'taken'}}))),
    ('rule', 'network', 'GET', '/security-group-rules/{}', None),
    ('rule', 'network', 'DELETE', '/security-group-rules/{}', None),
    ('server_group', 'compute', 'GET', '/os-server-groups/{}', None),
    ('server_group', 'compute', 'DELETE', '/os-server-groups/{}', None),
    ('keypair', 'compute', 'GET', '/os-keypairs/{}', None), ('keypair', 'compute', 'DELETE', '/os-keypairs/{}', None),
    *((kind, 'volume', method, f'/{path}/{{}}', body) for kind, path, name in (
        ('volume', 'volumes', 'volume'), ('snapshot', 'snapshots', 'snapshot'))
      for method, body in (('GET', None), ('DELETE', None), ('PUT', {name: {'name': 'taken'}}))),
    ('volume', 'volume', 'GET', '/volumes/{}/metadata', None),
    ('volume', 'volume', 'POST', '/volumes/{}/action', {'os-extend': {'new_size': 2}}),
    ('volume', 'volume', 'POST', '/volumes/{}/action', {'os-set_bootable': {'bootable': True}}),
    ('volume', 'volume', 'POST', '/volumes/{}/action', {'os-reserve': None}),
    ('project', 'compute', 'GET', '/os-quota-sets/{}', None),
    ('project', 'compute', 'GET', '/os-quota-sets/{}/detail', None),
    ('project', 'compute', 'GET', '/os-simple-tenant-usage/{}', None),
    ('project', 'identity', 'GET', '/projects/{}', None), ('user', 'identity', 'GET', '/users/{}', None),
    ('user', 'identity', 'GET', '/users/{}/projects', None),
    ('user', 'identity', 'GET', '/users/{}/application_credentials', None),
)

# Where not to be allowed is answered alike for what is there and what is not: 403 before anything is looked up.
ACTIONS = (
    'os-start', 'os-stop', 'pause', 'unpause', 'suspend', 'resume', 'lock', 'unlock', 'shelve', 'unshelve',
    'shelveOffload', 'revertResize', 'confirmResize', 'unrescue', 'restore', 'forceDelete', 'trigger_crash_dump',
    'injectNetworkInfo', 'migrate')
BODIES = {
    'reboot': {'type': 'HARD'}, 'resize': {'flavorRef': '1'}, 'rebuild': {'imageRef': base.MISSING},
    'createImage': {'name': 'stolen'}, 'createBackup': {'name': 'b', 'backup_type': 'daily', 'rotation': 1},
    'changePassword': {'adminPass': 'x'}, 'rescue': {}, 'os-getConsoleOutput': {},
    'addSecurityGroup': {'name': 'default'}, 'removeSecurityGroup': {'name': 'default'},
    'os-migrateLive': {'host': None, 'block_migration': 'auto'}, 'evacuate': {}, 'os-resetState': {'state': 'error'}}

# (kind, face, path, function of (id, what the attacker has) -> body)
REFERENCES = (
    ('image', 'compute', '/servers', lambda thing, own: {'server': {
        'name': 'a', 'imageRef': thing, 'flavorRef': own['flavor'], 'networks': 'none'}}),
    ('port', 'compute', '/servers', lambda thing, own: {'server': {
        'name': 'a', 'imageRef': own['image'], 'flavorRef': own['flavor'], 'networks': [{'port': thing}]}}),
    ('network', 'compute', '/servers', lambda thing, own: {'server': {
        'name': 'a', 'imageRef': own['image'], 'flavorRef': own['flavor'], 'networks': [{'uuid': thing}]}}),
    ('keypair', 'compute', '/servers', lambda thing, own: {'server': {
        'name': 'a', 'imageRef': own['image'], 'flavorRef': own['flavor'], 'networks': 'none', 'key_name': thing}}),
    ('security_group', 'compute', '/servers', lambda thing, own: {'server': {
        'name': 'a', 'imageRef': own['image'], 'flavorRef': own['flavor'], 'networks': 'auto',
        'security_groups': [{'name': thing}]}}),
    ('server_group', 'compute', '/servers', lambda thing, own: {
        'server': {'name': 'a', 'imageRef': own['image'], 'flavorRef': own['flavor'], 'networks': 'none'},
        'os:scheduler_hints': {'group': thing}}),
    *((kind, 'compute', '/servers', lambda thing, own, source=source, place=place: {'server': {
        'name': 'a', 'flavorRef': own['flavor'], 'networks': 'none', 'block_device_mapping_v2': [{
            'uuid': thing, 'source_type': source, 'destination_type': place, 'boot_index': 0, 'volume_size': 1}]}})
      for kind, source, place in (('volume', 'volume', 'volume'), ('snapshot', 'snapshot', 'volume'),
                                  ('image', 'image', 'volume'), ('image', 'image', 'local'))),
    ('image', 'compute', '/servers/{server}/action', lambda thing, own: {'rebuild': {'imageRef': thing}}),
    ('image', 'compute', '/servers/{server}/action', lambda thing, own: {'rescue': {'rescue_image_ref': thing}}),
    ('keypair', 'compute', '/servers/{server}/action', lambda thing, own: {'rebuild': {
        'imageRef': own['image'], 'key_name': thing}}),
    ('security_group', 'compute', '/servers/{server}/action', lambda thing, own: {'addSecurityGroup': {'name': thing}}),
    ('volume', 'compute', '/servers/{server}/os-volume_attachments', lambda thing, own: {
        'volumeAttachment': {'volumeId': thing}}),
    ('port', 'compute', '/servers/{server}/os-interface', lambda thing, own: {'interfaceAttachment': {
        'port_id': thing}}),
    ('network', 'compute', '/servers/{server}/os-interface', lambda thing, own: {'interfaceAttachment': {
        'net_id': thing}}),
    ('network', 'network', '/ports', lambda thing, own: {'port': {'network_id': thing}}),
    ('network', 'network', '/subnets', lambda thing, own: {'subnet': {
        'network_id': thing, 'cidr': '10.98.0.0/24', 'ip_version': 4}}),
    ('subnet', 'network', '/ports', lambda thing, own: {'port': {
        'network_id': own['network'], 'fixed_ips': [{'subnet_id': thing}]}}),
    ('security_group', 'network', '/ports', lambda thing, own: {'port': {
        'network_id': own['network'], 'security_groups': [thing]}}),
    ('security_group', 'network', '/security-group-rules', lambda thing, own: {'security_group_rule': {
        'security_group_id': thing, 'direction': 'ingress', 'ethertype': 'IPv4'}}),
    ('security_group', 'network', '/security-group-rules', lambda thing, own: {'security_group_rule': {
        'security_group_id': own['security_group'], 'direction': 'ingress', 'ethertype': 'IPv4',
        'remote_group_id': thing}}),
    ('network', 'network', '/rbac-policies', lambda thing, own: {'rbac_policy': {
        'object_type': 'network', 'object_id': thing, 'action': 'access_as_shared', 'target_tenant': own['project']}}),
    ('network', 'network', '/routers', lambda thing, own: {'router': {
        'name': 'a', 'external_gateway_info': {'network_id': thing}}}),
    ('network', 'network', '/floatingips', lambda thing, own: {'floatingip': {'floating_network_id': thing}}),
    ('port', 'network', '/floatingips', lambda thing, own: {'floatingip': {
        'floating_network_id': own['network'], 'port_id': thing}}),
    ('volume', 'volume', '/snapshots', lambda thing, own: {'snapshot': {'volume_id': thing}}),
    ('volume', 'volume', '/volumes', lambda thing, own: {'volume': {'size': 1, 'source_volid': thing}}),
    ('snapshot', 'volume', '/volumes', lambda thing, own: {'volume': {'size': 1, 'snapshot_id': thing}}),
    ('image', 'volume', '/volumes', lambda thing, own: {'volume': {'size': 1, 'imageRef': thing}}),
)

# (face, path): lists that could show what is another project's, asked as if the attacker might see all
LISTS = (
    *(('compute', path + query) for path in (
        '/servers', '/servers/detail', '/os-server-groups', '/images/detail', '/os-keypairs', '/os-volumes_boot',
        '/os-simple-tenant-usage', '/os-migrations', '/flavors/detail')
      for query in ('', '?all_tenants=1', '?all_projects=1', '?all_tenants=1&project_id={victim}',
                    '?project_id={victim}', '?tenant_id={victim}', '?user_id={user}', '?is_public=None')),
    *(('image', '/images' + query) for query in ('', '?owner={victim}', '?visibility=all', '?visibility=private',
                                                 '?member_status=all&visibility=shared', '?id=in:{image}')),
    *(('network', f'/{path}{query}') for path in ('networks', 'subnets', 'ports', 'security-groups',
                                                  'security-group-rules')
      for query in ('', '?project_id={victim}', '?tenant_id={victim}', '?all_tenants=1', '?shared=False')),
    *(('volume', f'/{path}{query}') for path in ('volumes', 'volumes/detail', 'snapshots', 'attachments')
      for query in ('', '?all_tenants=1', '?project_id={victim}', '?all_tenants=True&project_id={victim}')),
    *(('identity', path) for path in ('/users', '/projects', '/role_assignments?include_names', '/groups',
                                      '/users?name=admin', '/projects?domain_id=default')),
)


def attacks(stage) -> Iterator[Attack]:
    for number, (kind, face, method, path, body) in enumerate(PATHS):
        if face in stage.attacker.urls and kind in stage.things:
            yield Attack('isolation', f'{number} {method} {face} {path} of another {kind}',
                         _by_path(kind, face, method, path, body))
            yield Attack('anonymous', f'{number} {method} {face} {path}',
                         _without_token(kind, face, method, path, body))
    for action, body in ((*((name, None) for name in ACTIONS), *BODIES.items())):
        yield Attack('isolation', f'action {action} on another server',
                     _by_path('server', 'compute', 'POST', '/servers/{}/action', {action: body}))
        yield Attack('anonymous', f'action {action}',
                     _without_token('server', 'compute', 'POST', '/servers/{}/action', {action: body}))
    for number, (kind, face, path, body_of) in enumerate(REFERENCES):
        if face in stage.attacker.urls and kind in stage.things:
            yield Attack('reference', f'{number} POST {face} {path} with another {kind}',
                         _by_body(kind, face, path, body_of))
    for face, path in LISTS:
        if face in stage.attacker.urls:
            yield Attack('listing', f'GET {face} {path}', _by_list(face, path, 'attacker'))
            yield Attack('anonymous', f'list {face} {path}', _listed_without_token(face, path))
            for name in stage.outsiders:
                yield Attack('no project', f'{name} token: GET {face} {path}', _by_list(face, path, name))
    for name in stage.outsiders:
        for number, (kind, face, method, path, body) in enumerate(PATHS):
            if face in stage.attacker.urls and kind in stage.things and face != 'identity':
                yield Attack('no project', f'{name} token: {number} {method} {face} {path} of a {kind}',
                             _without_project(name, kind, face, method, path, body))
        for number, (kind, face, path, body_of) in enumerate(REFERENCES):
            if face in stage.attacker.urls and kind in stage.things:
                yield Attack('no project', f'{name} token: {number} POST {face} {path} with a {kind}',
                             _body_without_project(name, kind, face, path, body_of))


def _by_path(kind, face, method, path, body):
    def strike(stage):
        thing = stage.things[kind]
        answer = stage.attacker.send(method, face, path.format(thing), body)
        if answer.status == 403:
            return base.flaw(answer) or (
                None if stage.attacker.send(method, face, path.format(base.MISSING), body).status in (403, 404) else
                'it is forbidden, and what is not there is not')
        missing = stage.attacker.send(method, face, path.format(base.MISSING), body)
        return base.is_alike(answer, missing, thing) or base.refused(answer)
    return strike


def _by_body(kind, face, path, body_of):
    def strike(stage):
        thing = stage.things[kind]
        path_ = path.format(**stage.own)
        answer = stage.attacker.send('POST', face, path_, body_of(thing, stage.own))
        missing = stage.attacker.send('POST', face, path_, body_of(base.MISSING, stage.own))
        return base.is_alike(answer, missing, thing) or base.refused(answer)
    return strike


def _by_list(face, path, caller):
    def strike(stage):
        session = stage.outsiders.get(caller, stage.attacker)
        answer = session.send('GET', face, path.format(
            victim=stage.victim.project_id, user=stage.victim.user_id, image=stage.things['image']))
        shown = [kind for kind, thing in stage.things.items()
                 if kind not in ('flavor', 'project', 'user') and _shows(answer, thing)]
        if shown:
            return f'it shows the {", ".join(shown)} of another project'
        return base.flaw(answer)
    return strike


def _shows(answer, thing) -> bool:
    """Whether a document tells of a thing, apart from links that repeat the request."""
    def values(value):
        if isinstance(value, dict):
            for key, item in value.items():
                if key not in ('first', 'next', 'self', 'links'):
                    yield from values(item)
        elif isinstance(value, list):
            for item in value:
                yield from values(item)
        else:
            yield value
    return 200 <= answer.status < 300 and thing in map(str, values(base.document(answer)))


def _without_project(caller, kind, face, method, path, body):
    def strike(stage):
        answer = stage.outsiders[caller].send(method, face, path.format(stage.things[kind]), body)
        return base.refused(answer, (400, 401, 403, 404, 405, 409))
    return strike


def _body_without_project(caller, kind, face, path, body_of):
    def strike(stage):
        answer = stage.outsiders[caller].send('POST', face, path.format(**stage.own),
                                              body_of(stage.things[kind], stage.own))
        return base.refused(answer, (400, 401, 403, 404, 405, 409))
    return strike


def _without_token(kind, face, method, path, body):
    def strike(stage):
        answer = stage.anonymous.send(method, face, path.format(stage.things[kind]), body)
        return base.refused(answer, (401,))
    return strike


def _listed_without_token(face, path):
    def strike(stage):
        return base.refused(stage.anonymous.send('GET', face, path.format(
            victim=stage.victim.project_id, user=stage.victim.user_id, image=stage.things['image'])), (401,))
    return strike
