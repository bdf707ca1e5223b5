"""Payloads of the older, unversioned notifications: flat dictionaries, known as "system usage data"."""
import datetime
from collections.abc import Callable, Mapping
from typing import Any

from nova.json_types import JsonObject
from nova.notify import payloads


def _moment(value: datetime.datetime | None) -> str:
    """Return a time as consumers of these events expect it: ``2026-11-21 16:00:00+00:00``; '' for None."""
    return '' if value is None else value.isoformat(sep=' ', timespec='seconds') + '+00:00'


def instance(subject: payloads.Subject) -> JsonObject:
    """Return the usage of a server."""
    flavor, about = subject['flavor'], subject.about
    image = subject['image_id'] or ''
    values = {
        'tenant_id': subject['project_id'], 'user_id': subject['user_id'], 'instance_id': subject['uuid'],
        'display_name': subject['display_name'], 'reservation_id': subject['reservation_id'],
        'hostname': subject['hostname'], 'instance_type': flavor['name'], 'instance_type_id': flavor.get('id'),
        'instance_flavor_id': flavor['flavor_id'], 'memory_mb': subject['memory_mb'], 'vcpus': subject['vcpus'],
        'root_gb': subject['root_gb'], 'ephemeral_gb': subject['ephemeral_gb'],
        'disk_gb': subject['root_gb'] + subject['ephemeral_gb'],
        'architecture': subject['image_properties'].get('hw_architecture'),
        'os_type': subject['image_properties'].get('os_type'), 'host': subject['host'], 'node': subject['node'],
        'availability_zone': subject['availability_zone'], 'cell_name': '', 'progress': subject['progress'] or '',
        'created_at': _moment(subject['created_at']), 'launched_at': _moment(subject['launched_at']),
        'terminated_at': _moment(subject['terminated_at']), 'deleted_at': _moment(subject['deleted_at']),
        'image_ref_url': f'images/{image}' if image else '', 'kernel_id': subject['kernel_id'] or '',
        'ramdisk_id': subject['ramdisk_id'] or '', 'state': subject['vm_state'],
        'state_description': subject['task_state'] or '', 'access_ip_v4': subject['access_ip_v4'],
        'access_ip_v6': subject['access_ip_v6'], 'metadata': subject['metadata'],
        'image_meta': {**subject['image_properties'], 'base_image_ref': image}}
    return {**values, **_beside(subject, about)}


def _beside(subject: payloads.Subject, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that only some events have: volumes, former states, failure, addresses."""
    more = {name: about[name] for name in ('volume_id', 'old_state', 'old_task_state', 'old_display_name')
            if name in about}
    if 'old_state' in about:
        more.update(state=subject['vm_state'], new_task_state=subject['task_state'])
    if about.get('period') is not None:
        more.update({name: _moment(value) for name, value in about['period'].items()}, bandwidth={})
    failed = payloads.failure(about.get('fault'))
    if failed is not None:
        more.update(exception=failed['exception_message'], message=failed['exception_message'],
                    code=about['fault'].get('code', 500))
    more['fixed_ips'] = [{'address': ip['address'], 'version': ip['version'], 'label': ip['label'],
                          'vif_mac': ip['mac'], 'type': 'fixed', 'meta': {}, 'floating_ips': []}
                         for ip in payloads.addresses(subject)]
    return more


def _keypair(subject: payloads.Subject) -> dict[str, Any]:
    return {'tenant_id': subject.ctx.project_id, 'user_id': subject['user_id'], 'key_name': subject['name']}


def _aggregate(subject: payloads.Subject) -> dict[str, Any]:
    return {'aggregate_id': subject['id'], 'name': subject['name'], 'host_list': subject['hosts'],
            'meta_data': subject['metadata']}


def _group(subject: payloads.Subject) -> dict[str, Any]:
    return {'server_group_id': subject['uuid'], 'name': subject['name'], 'policies': subject['policies'],
            'rules': subject['rules']}


def _task(subject: payloads.Subject) -> dict[str, Any]:
    failed = payloads.failure(subject.about.get('fault'))
    return {'instance_id': subject['uuid'], 'state': subject.about.get('state'),
            'reason': failed and failed['exception_message'], 'method': subject.about.get('method'),
            'request_spec': payloads.build('RequestSpecPayload', payloads.Subject(
                subject.ctx, subject.about['spec']))['nova_object.data'] if subject.about.get('spec') else {}}


def _spec(subject: payloads.Subject) -> dict[str, Any]:
    return {'request_spec': {'instance_properties': {
        'uuid': subject['instance_uuid'], 'project_id': subject['project_id'], 'user_id': subject['user_id'],
        'availability_zone': subject['availability_zone']}, 'instance_type': subject['flavor'],
        'num_instances': subject['num_instances']}}


def _metrics(subject: payloads.Subject) -> dict[str, Any]:
    return {'host': subject['host'], 'host_ip': subject['host_ip'], 'nodename': subject['node'],
            'metrics': subject['metrics']}


_OF: dict[str, Callable[[payloads.Subject], JsonObject]] = {
    'KeypairPayload': _keypair, 'AggregatePayload': _aggregate, 'ServerGroupPayload': _group,
    'ComputeTaskPayload': _task, 'RequestSpecPayload': _spec, 'MetricsPayload': _metrics}


def build(payload: str, subject: payloads.Subject) -> JsonObject:
    """Return the unversioned payload of an event; ``payload`` is the name of the versioned payload."""
    return _OF.get(payload, instance)(subject)
