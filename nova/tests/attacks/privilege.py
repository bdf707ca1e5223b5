"""What only administrators and services may do, asked for by a member, and everything without a token (class E)."""
import functools
import re
from collections.abc import Iterator

from nova import policies
from nova.api import app
from nova.policies import base as rules
from nova.tests.attacks import base
from nova.tests.attacks.base import Attack

_HIGH = frozenset({rules.ADMIN, rules.SERVICE, rules.NO_CALLER, rules.MANAGER})
_CHECKS = {rule: check for rule, check, *_ in policies.RULES}
_PART = re.compile(r'\{(\w+)\}')

# (face, method, path, body): of the other faces
OTHERS = (
    ('identity', 'POST', '/users', {'user': {'name': 'evil', 'password': 'evil-password-1'}}),
    ('identity', 'POST', '/projects', {'project': {'name': 'evil'}}),
    ('identity', 'POST', '/roles', {'role': {'name': 'evil'}}),
    ('identity', 'POST', '/domains', {'domain': {'name': 'evil'}}),
    ('identity', 'GET', '/users', None), ('identity', 'GET', '/projects', None),
    ('identity', 'PUT', '/projects/{project}/users/{user}/roles/admin', None),
    ('identity', 'PUT', '/domains/default/users/{user}/roles/admin', None),
    ('identity', 'PUT', '/system/users/{user}/roles/admin', None),
    ('identity', 'PATCH', '/users/{user}', {'user': {'enabled': True, 'name': 'admin'}}),
    ('identity', 'PATCH', '/projects/{project}', {'project': {'enabled': True}}),
    ('identity', 'DELETE', '/projects/{project}', None), ('identity', 'DELETE', '/domains/default', None),
    ('identity', 'POST', '/users/{user}/application_credentials', {'application_credential': {
        'name': 'evil', 'roles': [{'name': 'admin'}]}}),
    ('identity', 'POST', '/users/{user}/application_credentials', {'application_credential': {
        'name': 'evil', 'unrestricted': True, 'project_id': 'other', 'roles': [{'name': 'service'}]}}),
    ('image', 'POST', '/images', {'name': 'evil', 'visibility': 'public', 'disk_format': 'raw',
                                  'container_format': 'bare'}),
    ('image', 'POST', '/images', {'name': 'evil', 'owner': 'other', 'disk_format': 'raw',
                                  'container_format': 'bare'}),
    ('network', 'POST', '/networks', {'network': {'name': 'evil', 'shared': True}}),
    ('network', 'POST', '/networks', {'network': {'name': 'evil', 'tenant_id': 'other'}}),
    ('network', 'POST', '/networks', {'network': {'name': 'evil', 'provider:network_type': 'flat',
                                                  'provider:physical_network': 'eth0'}}),
    ('network', 'POST', '/networks', {'network': {'name': 'evil', 'router:external': True}}),
    ('network', 'POST', '/ports', {'port': {'network_id': '{network}', 'device_owner': 'network:dhcp'}}),
    ('network', 'POST', '/ports', {'port': {'network_id': '{others_network}', 'port_security_enabled': False}}),
    ('network', 'POST', '/ports', {'port': {'network_id': '{others_network}', 'allowed_address_pairs': [
        {'ip_address': '10.0.0.0/8'}]}}),
    ('network', 'POST', '/ports', {'port': {'network_id': '{network}', 'binding:host_id': 'host1'}}),
    ('network', 'POST', '/ports', {'port': {'network_id': '{network}', 'tenant_id': 'other'}}),
    ('network', 'POST', '/security-groups', {'security_group': {'name': 'evil', 'tenant_id': 'other'}}),
    ('volume', 'POST', '/attachments', {'attachment': {'volume_uuid': '{volume}', 'instance_uuid': base.MISSING}}),
    ('volume', 'POST', '/volumes/{volume}/action', {'os-reset_status': {'status': 'available'}}),
    ('volume', 'POST', '/volumes/{volume}/action', {'os-force_delete': {}}),
    ('volume', 'POST', '/volumes/{volume}/action', {'os-force_detach': {}}),
    ('volume', 'PUT', '/os-quota-sets/{project}', {'quota_set': {'gigabytes': -1}}),
)
# What some of them may answer instead: the value is not taken over, or the resource is not there.
_HARMLESS = {'port_security_enabled': True, 'binding:host_id': True}


def attacks(stage) -> Iterator[Attack]:
    for number, row in enumerate(app.all_routes()):
        if row.public or not row.api:
            continue
        name = f'{number} {row.method} {row.path} {row.action or ""}'
        yield Attack('anonymous', f'row {name}', functools.partial(_without_token, row))
        if _CHECKS.get(row.policy) in _HIGH:
            yield Attack('privilege', f'row {name}', functools.partial(_as_member, row))
    for number, (face, method, path, body) in enumerate(OTHERS):
        if face in stage.attacker.urls:
            yield Attack('privilege', f'{number} {method} {face} {path}',
                         functools.partial(_on_another_face, face, method, path, body))


def _request(stage, row):
    """(path, body, version) of a row, about what the attacker has."""
    own = {'server_id': stage.own['server'], 'flavor_id': stage.own['flavor']}
    path = _PART.sub(lambda part: str(own.get(part[1], stage.own['server'] if row.path.startswith('/servers/{id}')
                                              else base.MISSING)), row.path)
    body = {row.action: None} if row.action else ({} if row.method in ('POST', 'PUT') else None)
    return path, body, f'2.{min(row.until or 104, 96) if row.since <= 96 else row.since}'


def _without_token(row, stage):
    path, body, version = _request(stage, row)
    return base.refused(stage.anonymous.send(row.method, 'compute', path, body, version=version), (401,))


def _as_member(row, stage):
    path, body, version = _request(stage, row)
    answer = stage.attacker.send(row.method, 'compute', path, body, version=version)
    return base.refused(answer, (403, 404, 410))


def _on_another_face(face, method, path, body, stage):
    def filled(value):
        if isinstance(value, dict):
            return {key: filled(item) for key, item in value.items()}
        return value.format(**stage.own) if isinstance(value, str) and value.startswith('{') else value
    answer = stage.attacker.send(method, face, path.format(**stage.own), filled(body))
    if answer.status == 201 and body and any(name in answer.text for name in _HARMLESS):
        document = next(iter(body.values()))
        shown = base.document(answer)
        taken = [name for name in document if name in _HARMLESS and shown.get('port', {}).get(name) == document[name]]
        stage.attacker.send('DELETE', face, f'{path}/{shown["port"]["id"]}')
        return f'it took {taken[0]}' if taken else base.flaw(answer)
    return base.refused(answer)
