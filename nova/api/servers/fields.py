"""Fields of servers in responses: one table for show and detail; the tables of update and rebuild derive from it."""
import dataclasses
import datetime
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from nova import exception
from nova import states
from nova import utils
from nova.api import request as api_request
from nova.api import shapes
from nova.api import versions
from nova.api.servers import schemas as server_schemas
from nova.db import engine
from nova.db.placement.categories import REGULAR
from nova.db.servers import listing
from nova.db.services import services as services_db
from nova.db.tables.rows import InstancesRow
from nova.json_types import JsonDocument
from nova.objects import faults
from nova.web import fields

LOG = logging.getLogger(__name__)
Row = InstancesRow

ABSENT = fields.ABSENT
Field = fields.Field

_SHOW = 'os_compute_api:servers:show'
ATTRIBUTES = 'os_compute_api:os-extended-server-attributes'
LAUNCH = 'nova:servers:launch-attributes'
EXTRA_SPECS = _SHOW + ':flavor-extra-specs'
HOST_STATUS = _SHOW + ':host_status'
HOST_UNKNOWN = HOST_STATUS + ':unknown-only'
RULES = (ATTRIBUTES, LAUNCH, EXTRA_SPECS, HOST_STATUS, HOST_UNKNOWN)     # rules that protect fields

_PROGRESSES = frozenset({'ACTIVE', 'BUILD', 'REBUILD', 'RESIZE', 'VERIFY_RESIZE', 'MIGRATING'})
_STATUS: dict[tuple[str, str | None], str] = {
    (vm_state, None): default for vm_state, (default, _) in states.STATUS.items()}


class View:
    """Argument of the functions that compute fields: data computed once for each request.

    :param host_statuses: {host: 'UP', 'DOWN', 'MAINTENANCE' or 'UNKNOWN'} (see ``host_statuses``)
    :param rows: all listed rows; their ports are read with one query if the response needs them
    """

    def __init__(self, req: api_request.Request, host_statuses: dict[str, str] | None = None,
                 rows: Sequence[Row] = ()) -> None:
        self._req, self._rows = req, rows
        self.servers, self.server_marks = req.url('servers', ''), req.bookmark('servers', '')
        self.images, self.flavors = req.bookmark('images', ''), req.bookmark('flavors', '')
        self.host_statuses = host_statuses or {}
        self.extra_specs = req.has('embedded_flavor') and req.allows(EXTRA_SPECS)
        self.is_admin = req.context.is_admin
        self._host_ids: dict[tuple[str | None, str], str] = {}

    @functools.cached_property
    def groups(self) -> dict[str, list[str]]:
        """{UUID: names of the security groups of the server's ports}, for servers with network interfaces."""
        wanted = [row['uuid'] for row in self._rows if row['network_info'] and row['vm_state'] != states.DELETED]
        try:
            return dict.fromkeys(wanted, []) | self._req.services.networks.group_names_of(self._req.context, wanted)
        except exception.Unavailable as error:
            LOG.warning('Cannot read the security groups of ports; showing those of the create requests: %s',
                        error.message)
            return {}

    def host_id(self, host: str | None, project_id: str) -> str:
        found = self._host_ids.get((host, project_id))
        if found is None:
            found = self._host_ids[host, project_id] = utils.host_id(host, project_id)
        return found


Identified = TypedDict('Identified', {'uuid': str})


# ---- getters -----------------------------------------------------------------

def links(row: Identified, view: View) -> list[dict[str, str]]:
    uuid = row['uuid']
    return [{'rel': 'self', 'href': view.servers + uuid},
            {'rel': 'bookmark', 'href': view.server_marks + uuid}]


def status(row: Row) -> str:
    key = row['vm_state'], row['task_state']
    return _STATUS.get(key) or states.status(*key)


def addresses(row: Row, _view: View | None = None) -> dict[str, list[dict[str, Any]]]:
    """Return {network label: [address]} with the type of the address and the port's MAC."""
    found: dict[str, list[dict[str, Any]]] = {}
    for vif in row['network_info']:
        mac, network = vif['address'], vif['network']
        shown = found.setdefault(network['label'], [])
        for subnet in network['subnets']:
            version = subnet['version']
            for ip in subnet['ips']:
                shown.append({'version': version, 'addr': ip['address'], 'OS-EXT-IPS:type': ip['type'],
                              'OS-EXT-IPS-MAC:mac_addr': mac})
                for floating in ip.get('floating_ips') or ():
                    shown.append({'version': 4, 'addr': floating.get('address', floating)
                                  if isinstance(floating, dict) else floating,
                                  'OS-EXT-IPS:type': 'floating', 'OS-EXT-IPS-MAC:mac_addr': mac})
    return found


def plain_addresses(row: Row, _view: View | None = None) -> dict[str, list[dict[str, Any]]]:
    """Return {network label: [address]} with version and address only."""
    return {label: [{'version': ip['version'], 'addr': ip['addr']} for ip in ips]
            for label, ips in addresses(row).items()}


def _image(row: Row, view: View) -> api_request.Document | str:
    image_id = row['image_id']
    return image_id and {'id': image_id, 'links': [{'rel': 'bookmark', 'href': view.images + image_id}]} or ''


def _image_with_properties(row: Row, view: View) -> api_request.Document | str:
    image_id = row['image_id']
    return image_id and {
        'id': image_id, 'links': [{'rel': 'bookmark', 'href': view.images + image_id}],
        'properties': {key: value if value is None or isinstance(value, str) else str(value)
                       for key, value in row['image_properties'].items()}} or ''


def _flavor_link(row: Row, view: View) -> JsonDocument:
    flavor_id = row['flavor_id']
    return {'id': flavor_id, 'links': [{'rel': 'bookmark', 'href': view.flavors + flavor_id}]}


def _flavor(row: Row, view: View) -> dict[str, Any]:
    flavor = row['flavor']
    shown = {'vcpus': flavor['vcpus'], 'ram': flavor['memory_mb'], 'disk': flavor['root_gb'],
             'ephemeral': flavor['ephemeral_gb'], 'swap': flavor['swap'], 'original_name': flavor['name']}
    if view.extra_specs:
        shown['extra_specs'] = flavor.get('extra_specs') or {}
    return shown


def _fault(row: Row, view: View) -> api_request.Document | fields.Absent:
    """Return the fault. Owners see the first line of its details if the code is below 500; administrators see all.

    The other lines are tracebacks with names of hosts and files.
    """
    fault = row['fault']
    if not fault or row['vm_state'] not in (states.ERROR, states.DELETED):
        return ABSENT
    message = fault['message']
    if view.is_admin:
        message = faults.for_administrators(message, fault.get('details'))
    shown = {'code': fault['code'], 'created': fault['created'], 'message': message}
    if fault.get('details') and (fault['code'] < 500 or view.is_admin):
        shown['details'] = fault['details'] if view.is_admin else fault['details'].partition('\n')[0]
    return shown


def _security_groups(row: Row, view: View) -> list[dict[str, str]] | fields.Absent:
    # a server without ports (not yet built, or deleted) shows the groups that its create request named
    names = row['security_groups']
    if row['network_info'] and row['vm_state'] != states.DELETED and row['uuid'] in view.groups:
        names = view.groups[row['uuid']]
    return [{'name': name} for name in names] if names else ABSENT


def host_status(row: Row, view: View) -> str:
    host = row['host']
    return view.host_statuses.get(host, 'UNKNOWN') if host else ''


def tags(row: Row, _view: View | None = None) -> list[str]:
    return row['tags'][1:-1].split(',') if row['tags'] else []


def _volumes(row: Row, *names: str) -> list[dict[str, Any]]:
    return [{name: volume[name] for name in names} for volume in row['volumes']]


def _category(row: Row, view: View) -> str | fields.Absent:
    category = row['category']
    return ABSENT if category == REGULAR else category


# ---- the table ---------------------------------------------------------------

def _attribute(name: str, get: str | Callable[[Row, View], object], columns: tuple[str, ...] = (), since: int = 1,
               until: int | None = None, rule: str | None = ATTRIBUTES, type: str | None = None) -> Field:
    return Field('OS-EXT-SRV-ATTR:' + name, get, since, until, rule, columns=columns, type=type)


# Fields that update and rebuild show at the same microversions as show and detail.
_CORE = (
    Field('id', 'uuid', type='string format=uuid required'),
    Field('name', 'display_name', type='string|null required'),
    Field('status', lambda row, view: status(row), columns=('vm_state', 'task_state'), type=shapes.FIELDS_STATUS),
    Field('tenant_id', 'project_id', type='string pattern ^[a-zA-Z0-9-]*$ minLength=1 maxLength=255 required'),
    Field('user_id', 'user_id', type='string pattern ^[a-zA-Z0-9-]*$ minLength=1 maxLength=255 required'),
    Field('metadata', 'metadata', type=shapes.FIELDS_METADATA),
    Field('hostId', lambda row, view: view.host_id(row['host'], row['project_id']),
          columns=('host', 'project_id'), type='string required'),
    Field('image', _image, until=97, columns=('image_id',), type=shapes.IMAGE),
    Field('image', _image_with_properties, since=98, columns=('image_id', 'image_properties'),
          type=shapes.FIELDS_IMAGE),
    Field('flavor', _flavor_link, until=46, columns=('flavor_id',), type=shapes.FLAVOR),
    Field('flavor', _flavor, since=47, columns=('flavor',), type=shapes.FIELDS_FLAVOR),
    Field('created', lambda row, view: utils.isotime(row['created_at']), columns=('created_at',),
          type='string format=date-time required'),
    Field('updated', lambda row, view: utils.isotime(row['updated_at']), columns=('updated_at',),
          type='string format=date-time required'),
    Field('accessIPv4', lambda row, view: row['access_ip_v4'] or '', columns=('access_ip_v4',),
          type='string oneOf(format=ipv4 / const=) required'),
    Field('accessIPv6', lambda row, view: row['access_ip_v6'] or '', columns=('access_ip_v6',),
          type='string oneOf(format=ipv6 / const=) required'),
    Field('links', links, columns=('uuid',), type=shapes.FIELDS_LINKS),
    Field('OS-DCF:diskConfig', 'disk_config', type='string required'),
    Field('fault', _fault, optional=True, columns=('fault', 'vm_state'), type=shapes.FAULT),
    Field('locked', 'locked', since=9, type='boolean required'),
    Field('description', 'description', since=19, type='string|null required'),
    Field('tags', tags, since=26, columns=('tags',), type=shapes.TAGS),
    Field('trusted_image_certificates', 'trusted_certs', since=63, type=shapes.HOSTS),
    Field('locked_reason', 'locked_reason', since=73, type='null|string required'),
    Field('pinned_availability_zone', 'pinned_availability_zone', since=96, type='string|null required'),
    Field('scheduler_hints', lambda row, view: row['scheduler_hints'] or {}, since=100,
          columns=('scheduler_hints',), type=shapes.SCHEDULER_HINTS),
)

_PROGRESS = Field('progress', lambda row, view: row['progress'] if status(row) in _PROGRESSES else ABSENT,
                  optional=True, columns=('progress', 'vm_state', 'task_state'), type='null|number')
_ADDRESSES = Field('addresses', addresses, columns=('network_info',), type=shapes.ADDRESSES)
_KEY_NAME = Field('key_name', 'key_name', type='null|string required')

# Fields that update and rebuild show since 2.75 (see _answer).
_MORE = (
    Field('config_drive', lambda row, view: 'True' if row['config_drive'] else '', columns=('config_drive',),
          type='string|null one of ,True,False,None required'),
    Field('security_groups', _security_groups, optional=True, type=shapes.SECURITY_GROUPS,
          columns=('security_groups', 'network_info', 'uuid', 'vm_state')),
    Field('os-extended-volumes:volumes_attached', lambda row, view: _volumes(row, 'id'), until=2, columns=('volumes',),
          type=shapes.VOLUMES_ATTACHED),
    Field('os-extended-volumes:volumes_attached', lambda row, view: _volumes(row, 'id', 'delete_on_termination'),
          since=3, columns=('volumes',), type=shapes.FIELDS_VOLUMES_ATTACHED),
    Field('OS-EXT-AZ:availability_zone', lambda row, view: row['availability_zone'] or '',
          columns=('availability_zone',), type='string required'),
    Field('OS-EXT-STS:power_state', 'power_state', type='integer|null one of 0,1,3,4,6,7,None required'),
    Field('OS-EXT-STS:task_state', 'task_state', type='string|null required'),
    Field('OS-EXT-STS:vm_state', 'vm_state', type='string|null required'),
    Field('OS-SRV-USG:launched_at', lambda row, view: utils.exact_time(row['launched_at']),
          columns=('launched_at',), type='string|null format=date-time required'),
    Field('OS-SRV-USG:terminated_at', lambda row, view: utils.exact_time(row['terminated_at']),
          columns=('terminated_at',), type='string|null format=date-time required'),
    _attribute('host', 'host', type='string|null'),
    _attribute('hypervisor_hostname', 'node', type='string|null'),
    _attribute('instance_name', lambda row, view: 'instance-' + row['uuid'], columns=('uuid',), type='string'),
    _attribute('hostname', 'hostname', since=3, until=89, type='string'),
    _attribute('hostname', 'hostname', since=90, rule=None, type='string required'),
    _attribute('kernel_id', lambda row, view: row['kernel_id'] or '', columns=('kernel_id',), since=3,
               rule=LAUNCH, type='string|null'),
    _attribute('ramdisk_id', lambda row, view: row['ramdisk_id'] or '', columns=('ramdisk_id',), since=3,
               rule=LAUNCH, type='string|null'),
    _attribute('launch_index', 'launch_index', since=3, rule=LAUNCH, type='integer|null'),
    _attribute('reservation_id', 'reservation_id', since=3, rule=LAUNCH, type='string|null'),
    _attribute('root_device_name', 'root_device_name', since=3, rule=LAUNCH, type='string|null'),
)
_USER_DATA = _attribute('user_data', 'user_data', since=3, type='string|null format=base64 maxLength=65535')
_HOST_STATUS = Field('host_status', host_status, since=16, rule=HOST_STATUS, columns=('host',),
                     type='string one of UP,DOWN,MAINTENANCE,UNKNOWN,')
_HOST_UNKNOWN = dataclasses.replace(
    _HOST_STATUS, get=lambda row, view: 'UNKNOWN' if host_status(row, view) == 'UNKNOWN' else ABSENT,
    rule=HOST_UNKNOWN, optional=True)
_CATEGORY = Field(server_schemas.CATEGORY, _category, optional=True, columns=('category',), type='string')
_SERVER_GROUPS = Field('server_groups', lambda row, view: [row['server_group_id']] if row['server_group_id'] else [],
                       since=71, columns=('server_group_id',), type=shapes.SERVER_GROUPS)


def _answer(since: int, *more: Field) -> fields.Fields:
    """Return the fields of the responses to update or rebuild; the fields of _MORE appear since version ``since``."""
    late = [dataclasses.replace(row, since=max(row.since, since))
            for row in (*_MORE, _HOST_UNKNOWN, _HOST_STATUS) if row.until is None or row.until >= since]
    return fields.Fields(
        *_CORE, dataclasses.replace(_PROGRESS, get='progress', optional=False),
        dataclasses.replace(_ADDRESSES, get=plain_addresses, until=since - 1),
        dataclasses.replace(_ADDRESSES, since=since), _SERVER_GROUPS, *late, *more, _CATEGORY)


INDEX = fields.Fields(
    Field('id', 'uuid', type='string format=uuid required'),
    Field('name', 'display_name', type='string required'),
    Field('links', links, columns=('uuid',), type=shapes.FIELDS_LINKS),
)
# If several fields have the same name, the last one that the caller may see is used.
DETAIL = fields.Fields(*_CORE, _PROGRESS, _ADDRESSES, _KEY_NAME, *_MORE, _USER_DATA, _HOST_UNKNOWN,
                       _HOST_STATUS, _CATEGORY)
# Lists show user data only to administrators, because the user data of a thousand servers may have 64 MiB.
SHOW = DETAIL + (_SERVER_GROUPS, dataclasses.replace(_USER_DATA, rule=LAUNCH))
SINCE_FULL = versions.SINCE['strict_keys']
UPDATE = _answer(SINCE_FULL, dataclasses.replace(_KEY_NAME, since=SINCE_FULL),
                 dataclasses.replace(_USER_DATA, since=SINCE_FULL))
REBUILD = _answer(SINCE_FULL, dataclasses.replace(_KEY_NAME, since=54),
                  Field('user_data', 'user_data', since=57, type='string|null format=base64 maxLength=65535 required'))


def shows_host_status(table: fields.Fields, req: api_request.Request) -> bool:
    """Return True if the response needs the state of compute services."""
    return bool(table.allowed(req) & {HOST_STATUS, HOST_UNKNOWN})


def host_statuses(conn: engine.Connection, hosts: set[str], down_time: int,
                  now: datetime.datetime) -> dict[str, str]:
    """Return {host: status} of compute services, read with one SELECT.

    :param down_time: seconds without a heartbeat after which a service is down
    """
    if not hosts:
        return {}
    rows: Sequence[Mapping[Any, Any]] = listing.computes(conn, hosts)
    return {row['host']: 'MAINTENANCE' if row['disabled'] else 'DOWN' if row['forced_down'] else
            'UP' if services_db.is_up(row, down_time, now) else 'UNKNOWN' for row in rows}
