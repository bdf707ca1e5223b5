"""Records of the audit log as events of DMTF's Cloud Auditing Data Federation (DSP0262), as pycadf writes them."""
import uuid as uuidlib

from nova import utils
from nova.json_types import Json
from nova.json_types import JsonObject
from nova.notify.event import Row

EVENT, SEALED = 'audit.http.response', 'audit.seal'
TYPE = 'http://schemas.dmtf.org/cloud/audit/1.0/event'
_ACTIONS = {'GET': 'read', 'POST': 'create', 'PUT': 'update', 'PATCH': 'update', 'DELETE': 'delete'}
_AUTHENTICATE = ('identity:login',)
_OUTCOMES = {'accepted': 'success', 'denied': 'failure', 'failed': 'failure', 'unknown': 'unknown'}


def event(row: Row, host: str, binary: str) -> JsonObject:
    """Return a record as a JSON-able CADF event.

    :param row: of the table audit_records
    """
    tags: list[Json] = [f'rule?value={row["action"]}']
    made: JsonObject = {
        'typeURI': TYPE, 'eventType': 'activity', 'id': row['uuid'],
        'eventTime': row['created_at'].isoformat(timespec='microseconds') + '+0000',
        'action': _action(row), 'outcome': _OUTCOMES[row['outcome']],
        'initiator': _present(
            typeURI='service/security/account/user', id=row['user_id'] or 'unknown', project_id=row['project_id'],
            domain_id=row['domain_id'], host=_present(address=row['remote_address']), request_id=row['request_id'],
            credential=_present(type='application_credential', token=None, identity_status=None,
                                id=row['credential_id']) if row['credential_id'] else None),
        'target': _present(typeURI=_uri(row), id=row['target_id'] or 'unknown', name=row['action']),
        'observer': _observer(host, binary), 'requestPath': row['route'],
        'tags': tags}
    if row['request_id']:
        tags.append(f'correlation_id?value={row["request_id"]}')
    if row['code'] is not None:
        made['reason'] = {'reasonType': 'HTTP', 'reasonCode': str(row['code'])}
    return made


def sealed(name: str, seal: str, host: str, binary: str) -> JsonObject:
    """Return the CADF event with the newest seal of a database's audit log: the number and digest of a record."""
    return {
        'typeURI': TYPE, 'eventType': 'monitor', 'id': str(uuidlib.uuid4()), 'action': 'monitor', 'outcome': 'success',
        'eventTime': utils.utcnow().isoformat(timespec='microseconds') + '+0000',
        'initiator': _observer(host, binary), 'observer': _observer(host, binary),
        'target': {'typeURI': 'data/security/audit', 'id': name},
        'attachments': [{'typeURI': 'xs:string', 'name': 'seal', 'content': seal}]}


def _action(row: Row) -> str:
    if row['action'] in _AUTHENTICATE:
        return 'authenticate'
    # the route of a server action ends with the name of the action
    return f'update/{row["route"].rpartition(":")[2]}' if '/action:' in row['route'] else _ACTIONS.get(
        row['method'], 'unknown')


def _uri(row: Row) -> str:
    service = row['action'].partition(':')[0]
    service = {'identity': 'security', 'image': 'storage', 'volume': 'storage', 'network': 'network'}.get(
        service, 'compute')
    return f'service/{service}/{row["target_type"] or "unknown"}'


def _observer(host: str, binary: str) -> JsonObject:
    return {'typeURI': 'service/compute', 'id': f'{binary}:{host}', 'name': binary}


def _present(**values: Json) -> JsonObject:
    return {name: value for name, value in values.items() if value is not None}
