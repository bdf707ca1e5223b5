"""Versioned payloads of notifications: a table of fields for each, and one function that builds all payloads.

A payload has the form in which oslo.versionedobjects serializes an object: name, version, namespace and data. A new
field needs a new minor version. Removing a field or changing its meaning needs a new major version. Payloads contain no
secrets: no passwords, tokens, user data, private keys or volume connections.
"""
from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TYPE_CHECKING, TypedDict

from nova import context
from nova import exception
from nova import states
from nova import utils
from nova.json_types import Json
from nova.json_types import JsonObject

if TYPE_CHECKING:
    from nova.objects.faults import Fault

Get = Callable[['Subject'], Any]

NAMESPACE = 'nova'
MARK = 'nova_object'


@dataclasses.dataclass(frozen=True)
class Payload:
    """One payload.

    version  major and minor, as text
    fields   {name: function(subject) -> value}
    """

    version: str
    fields: dict[str, Get]


class Subject(dict[str, Any]):
    """Subject of an event: the columns of a row, and attributes.

    ctx      the context of the request
    about    {name: value} in addition to the row: fault, volume_id, old_state, …
    """

    def __init__(self, ctx: context.RequestContext, row: Mapping[str, Any],
                 about: Mapping[str, Any] | None = None) -> None:
        super().__init__(row)
        self.ctx, self.about = ctx, about or {}


def build(name: str, subject: Subject) -> JsonObject:
    """Return the payload of this name."""
    payload = PAYLOADS[name]
    return {f'{MARK}.name': name, f'{MARK}.namespace': NAMESPACE, f'{MARK}.version': payload.version,
            f'{MARK}.data': {field: get(subject) for field, get in payload.fields.items()}}


def _column(name: str, default: object = None) -> Get:
    def get(subject: Subject) -> Json:
        value = subject.get(name, default)
        return utils.isotime(value) if isinstance(value, datetime.datetime) else value
    return get


def _columns(*names: str, **renamed: str) -> dict[str, Get]:
    return {**{name: _column(name) for name in names}, **{field: _column(name) for field, name in renamed.items()}}


def _about(name: str, default: object = None) -> Get:
    return lambda subject: subject.about.get(name, default)


def _same(value: object) -> Get:
    return lambda subject: value


def _each(payload: str, rows: Callable[[Subject], Iterable[Mapping[str, Any]]]) -> Get:
    """Return a getter that builds a list of payloads: one for each row of ``rows(subject)``."""
    return lambda subject: [build(payload, Subject(subject.ctx, row)) for row in rows(subject)]


def _one(payload: str, row: Callable[[Subject], Mapping[str, Any] | None]) -> Get:
    """Return a getter that builds one payload from ``row(subject)``, or returns None without a row."""
    def get(subject: Subject) -> JsonObject | None:
        found = row(subject)
        return None if found is None else build(payload, Subject(subject.ctx, found, subject.about))
    return get


# ---- fields of server payloads ----------------------------------------------

def addresses(subject: Subject) -> list[dict[str, Any]]:
    """Return [{column: value}] of every fixed address of a server."""
    return [{'label': vif['network']['label'], 'mac': vif['address'], 'port_uuid': vif['id'], 'address': ip['address'],
             'version': subnet['version'], 'device_name': vif.get('devname'), 'meta': {}}
            for vif in subject['network_info'] or () for subnet in vif['network']['subnets'] for ip in subnet['ips']]


def _keypairs(subject: Subject) -> list[dict[str, Any]]:
    if not subject.get('key_data'):
        return []
    return [{'user_id': subject['user_id'], 'name': subject['key_name'], 'public_key': subject['key_data'],
             'fingerprint': _fingerprint(subject['key_data']),
             'type': utils.key_type(subject['key_data'])}]


def _fingerprint(public_key: str) -> str | None:
    from nova.objects import keypair          # local import: only this function needs cryptography
    try:
        return keypair.fingerprint(public_key, 'x509' if 'CERTIFICATE' in public_key else 'ssh')
    except exception.NovaException:           # an earlier release stored an invalid key
        return None


class Failure(TypedDict):
    """Source of an ExceptionPayload."""

    exception: str
    exception_message: str
    module_name: str
    function_name: str
    traceback: str


def failure(fault: Fault | None) -> Failure | None:
    """Return the failure that a server's fault describes."""
    if not fault:
        return None
    details = fault.get('details') or ''
    first = details.partition('\n')[0]
    kind = first.partition(':')[0] if ':' in first else 'NovaException'
    places = [line.strip() for line in details.splitlines() if line.lstrip().startswith('File "')]
    module, function = '', ''
    if places:
        path, _, function = places[-1].removeprefix('File "').partition('", line ')
        found = path.removesuffix('.py').rpartition('/nova/')
        module = 'nova.' + found[2].replace('/', '.') if found[1] else path
        function = function.rpartition(' in ')[2]
    return {'exception': kind, 'exception_message': fault['message'], 'module_name': module, 'function_name': function,
            'traceback': details}


def tags(subject: Subject) -> list[str]:
    return [tag for tag in (subject.get('tags') or '').split(',') if tag]


def _zeroed(name: str) -> Get:
    return lambda subject: subject[name] or ''


_INSTANCE = {
    **_columns('uuid', 'user_id', 'reservation_id', 'display_name', 'host', 'node', 'availability_zone', 'key_name',
               'created_at', 'launched_at', 'terminated_at', 'deleted_at', 'updated_at', 'task_state', 'progress',
               'metadata', 'locked', 'locked_reason', tenant_id='project_id', display_description='description',
               host_name='hostname', image_uuid='image_id', auto_disk_config='disk_config', state='vm_state'),
    'architecture': lambda subject: subject['image_properties'].get('hw_architecture'),
    'os_type': lambda subject: subject['image_properties'].get('os_type'),
    'kernel_id': _zeroed('kernel_id'), 'ramdisk_id': _zeroed('ramdisk_id'),
    'power_state': lambda subject: states.POWER_STATE_NAMES.get(subject['power_state'], 'pending'),
    'flavor': _one('FlavorPayload', lambda subject: subject['flavor']),
    'ip_addresses': _each('IpPayload', addresses),
    'block_devices': _each('BlockDevicePayload', lambda subject: subject.about.get('devices', ())),
    'shares': _each('SharePayload', lambda subject: subject.about.get('shares', ())),
    'request_id': lambda subject: subject.ctx.request_id,
    'action_initiator_user': lambda subject: subject.ctx.user_id,
    'action_initiator_project': lambda subject: subject.ctx.project_id,
}
_FAULT = {'fault': _one('ExceptionPayload', lambda subject: failure(subject.about.get('fault')))}
_ACTION = {**_INSTANCE, **_FAULT}
_CERTIFICATES = {'trusted_image_certificates': _column('trusted_certs')}
_PERIOD = {'audit_period': _one('AuditPeriodPayload', lambda subject: subject.about.get('period')),
           'bandwidth': _same([])}

# ---- the payloads -----------------------------------------------------------

PAYLOADS = {
    'InstancePayload': Payload('1.9', _INSTANCE),
    'InstanceActionPayload': Payload('1.9', _ACTION),
    'InstanceCreatePayload': Payload('1.13', {
        **_ACTION, **_CERTIFICATES, 'keypairs': _each('KeypairPayload', _keypairs), 'tags': tags,
        'instance_name': lambda subject: 'instance-' + subject['uuid']}),
    'InstanceActionVolumePayload': Payload('1.7', {**_ACTION, 'volume_id': _about('volume_id')}),
    'InstanceActionVolumeSwapPayload': Payload('1.9', {
        **_ACTION, 'old_volume_id': _about('volume_id'), 'new_volume_id': _about('new_volume_id')}),
    'InstanceActionSharePayload': Payload('1.0', {**_ACTION, 'share_id': _about('share_id')}),
    'InstanceActionResizePrepPayload': Payload('1.4', {
        **_ACTION, 'new_flavor': _one('FlavorPayload', lambda subject: subject.about.get('new_flavor'))}),
    'InstanceActionRescuePayload': Payload('1.4', {**_ACTION, 'rescue_image_ref': _about('image_id')}),
    'InstanceActionRebuildPayload': Payload('1.10', {**_ACTION, **_CERTIFICATES}),
    'InstanceActionSnapshotPayload': Payload('1.10', {**_ACTION, 'snapshot_image_id': _about('image_id')}),
    'InstanceExistsPayload': Payload('1.3', {**_INSTANCE, **_PERIOD}),
    'InstanceUpdatePayload': Payload('1.10', {
        **_INSTANCE, **_PERIOD, 'tags': tags, 'old_display_name': _about('old_display_name'),
        'state_update': _one('InstanceStateUpdatePayload', lambda subject: subject)}),
    'InstanceStateUpdatePayload': Payload('1.0', {
        'state': _column('vm_state'), 'old_state': _about('old_state'),
        'old_task_state': _about('old_task_state'), 'new_task_state': _column('task_state')}),
    'FlavorPayload': Payload('1.4', {
        **_columns('name', 'memory_mb', 'vcpus', 'root_gb', 'ephemeral_gb', 'swap', 'rxtx_factor', 'disabled',
                   'is_public', 'extra_specs', 'description', flavorid='flavor_id'),
        'vcpu_weight': _same(0), 'projects': _column('projects')}),
    'IpPayload': Payload('1.0', _columns('label', 'mac', 'meta', 'port_uuid', 'version', 'address', 'device_name')),
    'BlockDevicePayload': Payload('1.0', _columns('device_name', 'boot_index', 'delete_on_termination', 'volume_id',
                                                  'tag')),
    'SharePayload': Payload('1.0', _columns('share_id', 'status', 'tag', share_mapping_uuid='uuid')),
    'KeypairPayload': Payload('1.0', _columns('user_id', 'name', 'fingerprint', 'public_key', 'type')),
    'AuditPeriodPayload': Payload('1.0', _columns('audit_period_beginning', 'audit_period_ending')),
    'ExceptionPayload': Payload('1.1', _columns('module_name', 'function_name', 'exception', 'exception_message',
                                                'traceback')),
    'ComputeTaskPayload': Payload('1.0', {
        'instance_uuid': _column('uuid'), 'state': _about('state'),
        'request_spec': _one('RequestSpecPayload', lambda subject: subject.about.get('spec')),
        'reason': _one('ExceptionPayload', lambda subject: failure(subject.about.get('fault')))}),
    'RequestSpecPayload': Payload('1.1', {
        **_columns('instance_uuid', 'project_id', 'user_id', 'availability_zone', 'num_instances', 'security_groups',
                   scheduler_hints='hints'),
        'flavor': _one('FlavorPayload', lambda subject: subject['flavor']),
        'image': _one('ImageMetaPayload', lambda subject: subject['image']),
        'force_hosts': lambda subject: [subject['force_host']] if subject.get('force_host') else None,
        'force_nodes': lambda subject: [subject['force_node']] if subject.get('force_node') else None,
        'ignore_hosts': lambda subject: [host for host, _node in subject.get('retry_hosts') or ()] or None,
        'requested_destination': lambda subject: subject.get('requested_host')}),
    'ImageMetaPayload': Payload('1.0', {
        **_columns('id', 'name', 'status', 'owner', 'size', 'checksum', 'container_format', 'disk_format', 'min_disk',
                   'min_ram', 'properties')}),
    'ServiceStatusPayload': Payload('1.1', {
        **_columns('uuid', 'host', 'binary', 'topic', 'disabled', 'disabled_reason', 'forced_down', 'version',
                   'availability_zone', last_seen_up='last_seen_at'), 'report_count': _same(0)}),
    'MetricsPayload': Payload('1.0', {
        **_columns('host', 'host_ip', nodename='node'),
        'metrics': _each('MetricPayload', lambda subject: subject['metrics'])}),
    'MetricPayload': Payload('1.0', {**_columns('name', 'value', 'source', 'timestamp'),
                                     'numa_membw_values': _same(None)}),
    'AggregatePayload': Payload('1.1', _columns('id', 'uuid', 'name', 'hosts', 'metadata')),
    'ServerGroupPayload': Payload('1.1', {
        **_columns('uuid', 'name', 'project_id', 'user_id', 'policies', 'rules'),
        'policy': lambda subject: (subject['policies'] or [None])[0],
        'members': lambda subject: list(subject.get('members') or ()), 'hosts': _same(None)}),
}
