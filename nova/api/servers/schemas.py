"""Schemas of requests about servers."""
import ipaddress
import re
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

from nova.json_types import Json
from nova.web.params import Array
from nova.web.params import BOOLEAN
from nova.web.params import DATE_TIME
from nova.web.params import HOST
from nova.web.params import IPV4
from nova.web.params import IPV6
from nova.web.params import LIMIT
from nova.web.params import MAX_INT
from nova.web.params import METADATA
from nova.web.params import NAME
from nova.web.params import Object
from nova.web.params import Param
from nova.web.params import Query
from nova.web.params import REGEX
from nova.web.params import STRING
from nova.web.params import Schema
from nova.web.params import Type
from nova.web.params import Typed
from nova.web.params import UUID
from nova.web.params import integer
from nova.web.params import nullable
from nova.web.params import string

VersionedType = tuple[Typed | Schema, int, int | None]      # a type, and its first and last minor version
MAX_HINTS = 64                 # scheduler hints of one request, and values of one hint
MAX_DEVICES = 64               # block devices, and networks, of one request
CATEGORY = 'os-instance-categories:category'

ANY: dict[str, Any] = {}


def _id_in(collection: str) -> Callable[[str | int], str]:
    """Return a function that extracts the ID from a reference, because a flavor or image may be given by its URL.

    The API guide shows such URLs. The host is ignored and the URL is not fetched; its last segment must be an ID.
    """
    pattern = re.compile(_URL % (collection, '([^ /?#]{1,255})'))

    def convert(reference: str | int) -> str:
        found = pattern.fullmatch(str(reference))
        return found[1] if found else str(reference)
    return convert


_URL = 'https?://[^ ?#]{1,900}/%s/%s'
_IMAGE_URL = string(pattern='^' + _URL % ('images', '[0-9a-fA-F-]{36}') + '$')
IMAGE_REF = Type({'type': 'string', 'anyOf': [UUID, _IMAGE_URL]}, convert=_id_in('images'))
IMAGE_REF_OR_NONE = Type({'type': 'string', 'anyOf': [UUID, {'maxLength': 0}, _IMAGE_URL]}, convert=_id_in('images'))
FLAVOR_REF = Type({'type': ['string', 'integer'], 'minLength': 1, 'anyOf': [
    {'maxLength': 255}, string(pattern='^' + _URL % ('flavors', '[^ /?#]{1,255}') + '$')]}, convert=_id_in('flavors'))
ACCESS_IPV6 = Type(IPV6, convert=lambda text: str(ipaddress.IPv6Address(text)))     # canonical form of an address
TAG = string(1, 60, '^[^,/]*$')
TAGS = Array(TAG, maxItems=50)
DESCRIPTION = nullable(string(0, 255, format='printable'))
DISK_CONFIG = {'enum': ['AUTO', 'MANUAL']}
USER_DATA = Type(string(max_length=65535, format='base64'), secret=True,
                 relaxed=nullable(string(max_length=65535, format='base64')))
PASSWORD = Type(STRING, secret=True)
TRUSTED_CERTS = {'type': ['array', 'null'], 'items': string(1, 255), 'minItems': 1, 'maxItems': 50,
                 'uniqueItems': True}
PERSONALITY = Array(Object(Param('path', string(1, 4096), required=True),
                           Param('contents', Type(string(format='base64'), secret=True), required=True)))
# one label; since 2.94 a name with dots
HOSTNAME = string(2, 63, '^[a-zA-Z0-9]+[a-zA-Z0-9-]*[a-zA-Z0-9]+$')
FQDN = string(1, 255, '^[a-zA-Z0-9-._]*$')
_HOSTNAME = (Param('hostname', HOSTNAME, since=90, until=93), Param('hostname', FQDN, since=94))

_SIZE = integer(1, MAX_INT)
_BOOT_INDEX = Type({'type': ['integer', 'string', 'null'], 'pattern': '^-?[0-9]{1,9}$', 'minimum': -999999999,
                    'maximum': 999999999}, convert=lambda value: None if value is None else int(value))

_DEVICE = (
    Param('virtual_name', string(max_length=255)),
    Param('volume_id', UUID),
    Param('snapshot_id', UUID),
    Param('volume_size', _SIZE),
    Param('device_name', string(1, 255, '^[a-zA-Z0-9._/-]*$')),
    Param('delete_on_termination', BOOLEAN),
    Param('no_device', ANY),
    Param('connection_info', Type(string(max_length=16777215), secret=True)),
)

DEVICE = Object(*_DEVICE)
DEVICE_V2 = Object(
    *_DEVICE,
    Param('source_type', {'enum': ['volume', 'image', 'snapshot', 'blank']}),
    Param('uuid', string(1, 255, '^[a-zA-Z0-9._-]*$')),
    Param('image_id', UUID),
    Param('destination_type', {'enum': ['local', 'volume']}),
    Param('guest_format', string(max_length=255)),
    Param('device_type', string(max_length=255)),
    Param('disk_bus', string(max_length=255)),
    Param('boot_index', _BOOT_INDEX),
    Param('tag', TAG, since=32, until=32),
    Param('tag', TAG, since=42),
    Param('volume_type', nullable(string(0, 255)), since=67),
)

NETWORK = Object(
    Param('fixed_ip', {'type': 'string', 'anyOf': [IPV4, IPV6]}),
    Param('port', nullable(UUID)),
    Param('uuid', STRING, until=36),
    Param('uuid', UUID, since=37),
    Param('tag', TAG, since=32, until=36),
    Param('tag', TAG, since=42),
)


class _Networks:
    """Value of ``networks``: a list, or since 2.37 'auto' or 'none'."""

    _list = Array(NETWORK, maxItems=MAX_DEVICES)

    def schema(self, version: int, relaxed: bool = False) -> dict[str, Any]:
        networks = self._list.schema(version, relaxed)
        return {'oneOf': [networks, {'enum': ['none', 'auto']}]} if version >= 37 else networks

    def converter(self, version: int, relaxed: bool = False) -> None:
        return None

    def prune(self, value: Json, version: int) -> Json:
        return self._list.prune(value, version)


_ONE_OR_MORE = {'anyOf': [UUID, {'type': 'array', 'items': UUID, 'maxItems': MAX_HINTS}]}
_NAMES = {'anyOf': [string(1, 255), {'type': 'array', 'items': string(1, 255), 'maxItems': MAX_HINTS}]}
HINTS = Object(
    Param('group', _NAMES),                  # ID or name of a group of the project
    Param('different_host', _ONE_OR_MORE),
    Param('same_host', _ONE_OR_MORE),
    Param('query', {'type': ['string', 'object'], 'maxLength': 4096, 'maxProperties': MAX_HINTS}),
    Param('target_cell', string(1, 255, format='name')),
    Param('different_cell', {'type': ['string', 'array'], 'items': STRING, 'maxItems': MAX_HINTS}),
    Param('build_near_host_ip', {'type': 'string', 'anyOf': [IPV4, IPV6]}),
    Param('cidr', string(pattern='^/[0-9a-f.:]+$')),
    closed=False, maxProperties=MAX_HINTS)

class _Server(Object):
    """A new server. flavorRef is required unless a category is given, which may have a default flavor."""

    def schema(self, version: int, relaxed: bool = False) -> dict[str, Any]:
        schema = super().schema(version, relaxed)
        required = schema.pop('required')
        return {**schema, 'if': {'not': {'required': [CATEGORY]}}, 'then': {'required': required},
                'required': [name for name in required if name != 'flavorRef']}


SERVER = _Server(
    Param('name', NAME, required=True),
    Param('imageRef', IMAGE_REF_OR_NONE),
    Param('flavorRef', FLAVOR_REF, required=True),
    Param('adminPass', PASSWORD),
    Param('metadata', METADATA),
    Param('networks', _Networks(), until=36),
    Param('networks', _Networks(), since=37, required=True),
    Param('OS-DCF:diskConfig', DISK_CONFIG),
    Param('accessIPv4', IPV4),
    Param('accessIPv6', ACCESS_IPV6),
    Param('personality', PERSONALITY, until=56),
    Param('availability_zone', NAME),
    Param('block_device_mapping', Array(DEVICE, maxItems=MAX_DEVICES)),
    Param('block_device_mapping_v2', Array(DEVICE_V2, maxItems=MAX_DEVICES)),
    Param('config_drive', BOOLEAN),
    Param('key_name', NAME),
    Param('min_count', integer(1, MAX_INT)),
    Param('max_count', integer(1, MAX_INT)),
    Param('return_reservation_id', BOOLEAN),
    Param('security_groups', Array(Object(Param('name', NAME)), maxItems=MAX_DEVICES)),
    Param('user_data', USER_DATA),
    Param('description', DESCRIPTION, since=19),
    Param('tags', TAGS, since=52),
    Param('trusted_image_certificates', TRUSTED_CERTS, since=63),
    Param('host', HOST, since=74),
    Param('hypervisor_hostname', HOST, since=74),
    *_HOSTNAME,
    Param(CATEGORY, string(1, 255)),
)
CREATE = Object(Param('server', SERVER, required=True), Param('os:scheduler_hints', HINTS),
                Param('OS-SCH-HNT:scheduler_hints', HINTS))

UPDATE = Object(Param('server', Object(
    Param('name', NAME),
    Param('OS-DCF:diskConfig', DISK_CONFIG),
    Param('accessIPv4', IPV4),
    Param('accessIPv6', ACCESS_IPV6),
    Param('description', DESCRIPTION, since=19),
    *_HOSTNAME,
    Param('pinned_availability_zone', nullable(string(1, 255)), since=104),
), required=True))

REBUILD = Object(
    Param('name', NAME),
    Param('imageRef', IMAGE_REF, required=True),
    Param('adminPass', PASSWORD),
    Param('metadata', METADATA),
    Param('preserve_ephemeral', BOOLEAN),
    Param('OS-DCF:diskConfig', DISK_CONFIG),
    Param('accessIPv4', IPV4),
    Param('accessIPv6', ACCESS_IPV6),
    Param('personality', PERSONALITY, until=56),
    Param('description', DESCRIPTION, since=19),
    Param('key_name', nullable(string(1, 255)), since=54),
    Param('user_data', Type(nullable(string(max_length=65535, format='base64')), secret=True), since=57),
    Param('trusted_image_certificates', TRUSTED_CERTS, since=63),
    *_HOSTNAME,
)


def action(name: str, *types: VersionedType) -> Object:
    """Return the body schema of an action. ``types``: [(type, since, until)]; default: any value."""
    rows = types or ((ANY, 1, None),)
    return Object(*(Param(name, type_, since=since, until=until, required=True)
                    for type_, since, until in rows))


REBOOT = Object(Param('type', {'enum': ['HARD', 'Hard', 'hard', 'SOFT', 'Soft', 'soft']}, required=True))
CREATE_IMAGE = Object(Param('name', NAME, required=True), Param('metadata', METADATA))
CONSOLE_OUTPUT = Object(Param('length', Type(
    {'type': ['integer', 'string', 'null'], 'pattern': '^-?[0-9]{1,9}$', 'minimum': -1, 'maximum': MAX_INT},
    convert=lambda value: None if value is None else int(value))))
RESET_STATE = Object(Param('state', {'enum': ['active', 'error']}, required=True))
LOCK = Object(Param('locked_reason', string(1, 255)), nullable=True)

METADATA_BODY = Object(Param('metadata', METADATA, required=True))
META_BODY = Object(Param('meta', METADATA, required=True))
TAGS_BODY = Object(Param('tags', TAGS, required=True))

# ---- lists -------------------------------------------------------------------

# users' filters with a regular expression, and with a plain value
PATTERNS = ('kernel_id', 'ramdisk_id', 'hostname', 'key_name', 'power_state', 'node', 'flavor',
            'reservation_id', 'launched_at', 'terminated_at', 'availability_zone', 'name', 'display_name',
            'description', 'display_description', 'locked_by', 'root_device_name', 'config_drive',
            'access_ip_v4', 'access_ip_v6', 'auto_disk_config', 'progress', 'ip', 'ip6', 'created_at')
PLAIN = ('user_id', 'project_id', 'tenant_id', 'launch_index', 'image_ref', 'image', 'vm_state', 'task_state',
         'host', 'uuid', 'sort_dir', 'all_tenants', 'soft_deleted', 'deleted', 'status', 'marker')
# accepted and ignored: names of related tables that the original Nova accepted as filters
WITHOUT_EFFECT = ('block_device_mapping', 'services', 'metadata', 'system_metadata', 'info_cache',
                  'security_groups', 'pci_devices')

# sort key -> column; None: ignored until 2.74
SORT_KEYS = {
    **{name: name for name in (
        'access_ip_v4', 'access_ip_v6', 'availability_zone', 'config_drive', 'created_at', 'display_name',
        'host', 'hostname', 'kernel_id', 'key_name', 'launch_index', 'launched_at', 'locked_by', 'node',
        'power_state', 'progress', 'project_id', 'ramdisk_id', 'root_device_name', 'task_state',
        'terminated_at', 'updated_at', 'user_id', 'uuid', 'vm_state')},
    'auto_disk_config': 'disk_config', 'display_description': 'description', 'image_ref': 'image_id',
    'instance_type_id': 'flavor_id',
}
OLD_SORT_KEYS = {
    **{name: name for name in ('deleted_at', 'ephemeral_gb', 'id', 'key_data', 'locked', 'memory_mb',
                               'reservation_id', 'root_gb', 'user_data', 'vcpus')},
    'launched_on': 'host',
    **dict.fromkeys(('architecture', 'cell_name', 'cleaned', 'default_ephemeral_device',
                     'default_swap_device', 'deleted', 'disable_terminate', 'ephemeral_key_uuid', 'os_type',
                     'shutdown_terminate', 'vm_mode')),
}


def _sort_keys(*tables: Iterable[str]) -> dict[str, Any]:
    return {'enum': [name for table in tables for name in table]}


LIST = Query(
    *(Param(name, REGEX) for name in PATTERNS),
    *(Param(name, STRING) for name in (*PLAIN, *WITHOUT_EFFECT)),
    Param('sort_key', _sort_keys(SORT_KEYS, OLD_SORT_KEYS), until=74),
    Param('sort_key', _sort_keys(SORT_KEYS, {'locked': 'locked'}), since=75),
    Param('limit', LIMIT),
    Param('changes-since', DATE_TIME),
    Param('changes-before', DATE_TIME, since=66),
    *(Param(name, REGEX, since=26) for name in ('tags', 'tags-any', 'not-tags', 'not-tags-any')),
    Param('locked', STRING, since=73),
    Param(CATEGORY, STRING),
    Param(None, STRING, pattern='^_'),
    closed=75)

ACTIONS = Query(Param('limit', LIMIT, since=58), Param('marker', STRING, since=58),
                Param('changes-since', DATE_TIME, since=58), Param('changes-before', DATE_TIME, since=66),
                closed=58, single=58)
NOTHING = Query(closed=102)
OF_CATEGORY = Query(Param(CATEGORY, STRING))       # names the category of an administrative server
