"""HTTP client of a Block Storage service (Cinder v3)."""
from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any, TYPE_CHECKING, TypedDict

from oslo_config.cfg import ConfigOpts

from nova import context
from nova import exception
from nova.context import RequestContext
from nova.db.engine import Database
from nova.json_types import Json
from nova.json_types import JsonObject
from nova.runtime import rest_client
from nova.volume import api
from nova.volume import barbican

if TYPE_CHECKING:
    import requests
    from typing_extensions import Unpack

LOG = logging.getLogger(__name__)

VERSION = {'OpenStack-API-Version': 'volume 3.44'}       # first version with os-complete of attachments
REIMAGE_VERSION = {'OpenStack-API-Version': 'volume 3.68'}
SERVICE_TYPE = 'block-storage'                           # type in the catalog, unless [cinder] sets another type
PAGE = 1000
ATTACHING = 'attaching'                                  # status of a volume with an incomplete attachment
REFUSALS = {400: exception.InvalidVolume, 409: exception.InvalidVolume}
PREFIX = 'Invalid volume: '         # prefix of Cinder's messages, removed because InvalidVolume adds it
ERRORS = {413: exception.Forbidden}


class _Options(TypedDict, total=False):
    """Options of requests.request; ``log``: whether keystoneauth1 may log the request."""

    json: Json
    params: Mapping[str, str | int]
    log: bool


class _Attachment(TypedDict):
    id: str
    volume_id: str
    connection_info: dict[str, Any]


class CinderVolumes(api.BlockStorage):
    """Thread-safe client.

    Requests have the caller's token and the service token: Cinder deletes attachments of servers only for services.

    :param conf: uses [cinder] (see nova.runtime.rest_client)
    """

    keeps_chains = True

    def __init__(self, conf: ConfigOpts) -> None:
        self._service = rest_client.Service(conf, 'cinder', SERVICE_TYPE, 'Block Storage', ERRORS, own_beside=True)
        self._root: str | None = None
        self._keys = barbican.Barbican(conf)

    @classmethod
    def new(cls, conf: ConfigOpts, api_db: Database, images: api.Images) -> CinderVolumes:
        return cls(conf)

    # ---- volumes

    def get(self, ctx: RequestContext, volume_id: str) -> api.Volume:
        return _volume(self._volume(ctx, 'GET', volume_id).json()['volume'])

    def list(self, ctx: RequestContext, limit: int, offset: int = 0) -> Sequence[api.Volume]:
        return [_volume(each) for each in self._list(ctx, 'volumes', limit, offset)]

    def _list(self, ctx: RequestContext, noun: str, limit: int, offset: int) -> Sequence[dict[str, Any]]:
        return self._call(ctx, 'GET', f'/{noun}/detail', exception.NotFound(),
                          params={'limit': limit, 'offset': offset}).json()[noun]

    def create(self, ctx: RequestContext, size: int | None, *, name: str = '', description: str | None = '',
               image_id: str | None = None, snapshot_id: str | None = None, volume_type: str | None = None,
               availability_zone: str | None = None, metadata: dict[str, str] | None = None) -> api.Volume:
        self._check_owner(ctx, 'a volume')
        wanted: JsonObject = {'size': size, 'name': name, 'description': description, 'imageRef': image_id,
                  'snapshot_id': snapshot_id, 'volume_type': volume_type, 'availability_zone': availability_zone,
                  'metadata': {**metadata} if metadata else None}
        if size is None and snapshot_id is not None:
            wanted['size'] = self.get_snapshot(ctx, snapshot_id)['size']
        answer = self._call(ctx, 'POST', '/volumes', exception.VolumeNotFound(volume_id='of its source'),
                            json={'volume': {key: value for key, value in wanted.items() if value is not None}})
        return _volume(answer.json()['volume'])

    def _check_owner(self, ctx: RequestContext, what: str) -> None:
        """Check that a new volume or snapshot will belong to the caller's project.

        :raises InvalidVolume: the caller has no token, and the service's token is for another project
        """
        if not ctx.auth_token and self._service.has_account and ctx.project_id != self._service.own_project():
            raise exception.InvalidVolume(reason=f'{what} can be created only during a request of its owner.')

    def delete(self, ctx: RequestContext, volume_id: str) -> None:
        self._volume(ctx, 'DELETE', volume_id)

    def reimage(self, ctx: RequestContext, volume_id: str, image_id: str) -> None:
        self._volume(ctx, 'POST', volume_id, '/action', headers=REIMAGE_VERSION,
                     json={'os-reimage': {'image_id': image_id, 'reimage_reserved': True}})

    def check_type(self, ctx: RequestContext, name: str) -> None:
        missing = exception.VolumeTypeNotFound(name=str(name)[:255])
        params: dict[str, str | int] = {'limit': PAGE}
        while types := self._call(ctx, 'GET', '/types', missing, params=params).json()['volume_types']:
            if any(name in (each['id'], each['name']) for each in types):
                return
            if types[-1]['id'] == params.get('marker'):  # the service ignored the marker and sent the page again
                break
            params['marker'] = types[-1]['id']
        raise missing

    def _volume(self, ctx: RequestContext, method: str, volume_id: str, tail: str = '',
                headers: Mapping[str, str] = VERSION, **options: Unpack[_Options]) -> requests.Response:
        missing = exception.VolumeNotFound(volume_id=str(volume_id)[:64])
        return self._call(ctx, method, f'/volumes/{rest_client.checked(volume_id, missing)}{tail}', missing,
                          headers, **options)

    # ---- attachments

    def attach(self, ctx: RequestContext, volume_id: str, instance_uuid: str) -> str:
        return self._attach(ctx, volume_id, instance_uuid, None)['id']

    def _attach(self, ctx: RequestContext, volume_id: str, instance_uuid: str,
                connector: JsonObject | None) -> _Attachment:
        missing = exception.VolumeNotFound(volume_id=str(volume_id)[:64])
        body: JsonObject = {'attachment': {'volume_uuid': rest_client.checked(volume_id, missing),
                                           'instance_uuid': instance_uuid, 'connector': connector}}
        return self._call(ctx, 'POST', '/attachments', missing, json=body).json()['attachment']

    def renew(self, ctx: RequestContext, volume_id: str, instance_uuid: str, held: str | None) -> str:
        # Cinder refuses a second attachment while the volume's status is 'attaching': complete the first one
        if held is not None and self.get(ctx, volume_id)['status'] == ATTACHING:
            self.complete(ctx, held)
        return self.attach(ctx, volume_id, instance_uuid)

    def attach_elsewhere(self, ctx: RequestContext, volume_id: str, instance_uuid: str, held: str | None,
                         connector: api.Connector, device: str | None) -> tuple[str, api.Connection]:
        before = {held} if held else {*self.attachments_of(ctx, instance_uuid)}
        # create the attachment with its connector: Cinder adds no connector to a second attachment that exists already
        try:
            made = self._attach(ctx, volume_id, instance_uuid, {**connector, 'mountpoint': device})
        except exception.NovaException:
            with contextlib.suppress(exception.NovaException):           # remove what the failed request has created
                for each in self._attachments_of(ctx, instance_uuid):
                    if each['volume_id'] == volume_id and each['id'] not in before:
                        self.detach(ctx, each['id'])
            raise
        return made['id'], _connection(made, connector)

    def connect(self, ctx: RequestContext, attachment_id: str, connector: api.Connector,
                device: str | None) -> api.Connection:
        body: JsonObject = {'attachment': {'connector': {**connector, 'mountpoint': device}}}
        return _connection(self._attachment(ctx, 'PUT', attachment_id, json=body).json()['attachment'], connector)

    def complete(self, ctx: RequestContext, attachment_id: str) -> None:
        self._attachment(ctx, 'POST', attachment_id, '/action', json={'os-complete': None})

    def detach(self, ctx: RequestContext, attachment_id: str) -> None:
        try:
            self._attachment(ctx, 'DELETE', attachment_id)
        except exception.NotFound:
            LOG.debug('Attachment %s is gone already.', attachment_id)

    def passphrase(self, ctx: RequestContext, volume_id: str) -> str:
        found = self._volume(ctx, 'GET', volume_id, '/encryption').json()
        if found.get('control_location') not in (None, 'front-end') or found.get('provider') not in api.LUKS:
            raise exception.InvalidVolume(reason=f'its encryption provider is {str(found.get("provider"))[:80]}, but '
                                                 'hosts support only LUKS.')
        if found.get(api.KEEPER) == api.BLOCK_STORAGE:
            return self._kept_passphrase(ctx, volume_id)
        return self._keys.passphrase(ctx, str(found.get('encryption_key_id')))

    def _kept_passphrase(self, ctx: RequestContext, volume_id: str) -> str:
        """Return the passphrase from nova-volume, which returns it only to services. The request is not logged."""
        own = context.admin_context(ctx.request_id)
        answer = self._volume(own, 'POST', volume_id, '/action', json={api.PASSPHRASE: {}}, log=False)
        return str(answer.json()['passphrase'])

    def begin_detaching(self, ctx: RequestContext, volume_id: str) -> None:
        self._volume(ctx, 'POST', volume_id, '/action', json={'os-begin_detaching': {}})

    def roll_detaching(self, ctx: RequestContext, volume_id: str) -> None:
        self._volume(ctx, 'POST', volume_id, '/action', json={'os-roll_detaching': {}})

    def attachments_of(self, ctx: RequestContext, instance_uuid: str,
                       volume_id: str | None = None) -> Sequence[str]:
        return [each['id'] for each in self._attachments_of(ctx, instance_uuid)
                if volume_id in (None, each['volume_id'])]

    def _attachments_of(self, ctx: RequestContext, instance_uuid: str) -> Sequence[_Attachment]:
        params = {'instance_id': instance_uuid, 'all_tenants': '1'} if ctx.is_admin else {'instance_id': instance_uuid}
        return self._call(ctx, 'GET', '/attachments', exception.NotFound(), params=params).json()['attachments']

    def _attachment(self, ctx: RequestContext, method: str, attachment_id: str, tail: str = '',
                    **options: Unpack[_Options]) -> requests.Response:
        missing = exception.VolumeAttachmentNotFound(attachment_id=str(attachment_id)[:64])
        path = f'/attachments/{rest_client.checked(attachment_id, missing)}{tail}'
        return self._call(ctx, method, path, missing, **options)

    # ---- snapshots

    def get_snapshot(self, ctx: RequestContext, snapshot_id: str) -> api.Snapshot:
        return _snapshot(self._snapshot(ctx, 'GET', snapshot_id).json()['snapshot'])

    def list_snapshots(self, ctx: RequestContext, limit: int, offset: int = 0) -> Sequence[api.Snapshot]:
        return [_snapshot(each) for each in self._list(ctx, 'snapshots', limit, offset)]

    def create_snapshot(self, ctx: RequestContext, volume_id: str, name: str | None,
                        description: str | None = '') -> api.Snapshot:
        self._check_owner(ctx, 'a snapshot')
        body: JsonObject = {'snapshot': {'volume_id': volume_id, 'name': name, 'description': description,
                                         'force': True}}
        answer = self._call(ctx, 'POST', '/snapshots', exception.VolumeNotFound(volume_id=volume_id), json=body)
        return _snapshot(answer.json()['snapshot'])

    def delete_snapshot(self, ctx: RequestContext, snapshot_id: str) -> None:
        try:
            self._snapshot(ctx, 'DELETE', snapshot_id)
        except exception.NotFound:
            LOG.debug('Snapshot %s is gone already.', snapshot_id)

    def _snapshot(self, ctx: RequestContext, method: str, snapshot_id: str) -> requests.Response:
        missing = exception.VolumeSnapshotNotFound(snapshot_id=str(snapshot_id)[:64])
        return self._call(ctx, method, f'/snapshots/{rest_client.checked(snapshot_id, missing)}', missing)

    def update_snapshot_status(self, ctx: RequestContext, snapshot_id: str, status: str,
                               progress: str | None) -> None:
        missing = exception.VolumeSnapshotNotFound(snapshot_id=str(snapshot_id)[:64])
        self._call(ctx, 'POST', f'/snapshots/{rest_client.checked(snapshot_id, missing)}/action', missing,
                   json={'os-update_snapshot_status': {'status': status, 'progress': progress}})

    def complete_migration(self, ctx: RequestContext, volume_id: str, new_volume_id: str, failed: bool) -> str:
        if self.get(ctx, volume_id)['migration_status'] in (None, 'success', 'error'):
            return new_volume_id
        body: JsonObject = {'os-migrate_volume_completion': {'new_volume': new_volume_id, 'error': failed}}
        return self._volume(ctx, 'POST', volume_id, '/action', json=body).json()['save_volume_id']

    # ---- requests

    def _call(self, ctx: RequestContext, method: str, path: str, missing: exception.NovaException,
              headers: Mapping[str, str] = VERSION, **options: Unpack[_Options]) -> requests.Response:
        """Send a request and return the response; raise ``missing`` for 404."""
        response = self._service.request(ctx, method, lambda: self._address(ctx) + path,
                                         {'Accept': 'application/json', **headers}, **options)
        code = response.status_code
        if code < 400:
            return response
        LOG.info('The Block Storage service answered %s %s with code %s.', method, path, code)
        if code == 404:
            raise missing
        if code in REFUSALS:
            raise REFUSALS[code](reason=_message(response).removeprefix(PREFIX))
        raise self._service.refusal(ctx, code)

    def _address(self, ctx: RequestContext) -> str:
        """Return the URL of the API for the token's project; the URL in the catalog ends with the service's project."""
        if self._root is None:
            endpoint = self._service.endpoint()
            root, found, _project = endpoint.partition('/v3')
            self._root = root + '/v3' if found else endpoint + '/v3'
        project = ctx.project_id if ctx.auth_token else self._service.own_project()
        return f'{self._root}/{project}' if project else self._root


def _message(response: requests.Response) -> str:
    """Return the message of a fault document."""
    try:
        (fault,) = response.json().values()
        return str(fault['message'])[:500]
    except (ValueError, KeyError, TypeError, AttributeError):
        return f'the Block Storage service refused the request with code {response.status_code}.'


def _connection(attachment: _Attachment, connector: api.Connector) -> api.Connection:
    info = attachment['connection_info']
    kind = info.pop('driver_volume_type', None)
    # Cinder returns the connection data as top-level keys, not below 'data'
    return {'driver_volume_type': kind, 'data': info.get('data', info), 'host': connector.get('host')}


def _volume(body: dict[str, Any]) -> api.Volume:
    return {
        'id': body['id'], 'name': body.get('name') or '', 'description': body.get('description'),
        'project_id': body.get('os-vol-tenant-attr:tenant_id'), 'status': body['status'], 'size': body['size'],
        'bootable': str(body.get('bootable')).lower() == 'true', 'multiattach': bool(body.get('multiattach')),
        'volume_type': body.get('volume_type'), 'availability_zone': body.get('availability_zone'),
        'metadata': body.get('metadata') or {}, 'snapshot_id': body.get('snapshot_id'),
        'created_at': body.get('created_at'), 'encrypted': bool(body.get('encrypted')),
        'image_metadata': body.get('volume_image_metadata') or {}, 'migration_status': body.get('migration_status'),
        'attachments': [{'id': each.get('attachment_id'), 'instance_uuid': each.get('server_id'),
                         'device': each.get('device'), 'host': each.get('host_name')}
                        for each in body.get('attachments') or ()]}


def _snapshot(body: dict[str, Any]) -> api.Snapshot:
    return {'id': body['id'], 'name': body.get('name'), 'volume_id': body['volume_id'], 'status': body['status'],
            'size': body['size'], 'description': body.get('description'), 'created_at': body.get('created_at'),
            'project_id': body.get('os-extended-snapshot-attributes:project_id')}
