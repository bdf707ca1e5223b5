"""Schemas of requests about servers."""
import ipaddress
import re
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any, Final, TypedDict

from nova.json_types import Json
from nova.json_types import JsonObject
from nova.web import params

VersionedType = tuple[params.Typed | params.Schema, int, int | None]      # (type, its first and last minor version)
MAX_HINTS = 64                 # maximum scheduler hints of a request, and values of a hint
MAX_DEVICES = 64               # maximum block devices, and networks, of a request
CATEGORY: Final = 'os-instance-categories:category'

ANY: dict[str, Any] = {}


def _id_in(collection: str) -> Callable[[str | int], str]:
    """Return a function that extracts the ID from a reference, which may be an ID or, as in the API guide, a URL.

    The URL is not fetched, and its host is ignored; its last segment must be an ID.
    """
    pattern = re.compile(_URL % (collection, '([^ /?#]{1,255})'))

    def convert(reference: str | int) -> str:
        found = pattern.fullmatch(str(reference))
        return found[1] if found else str(reference)
    return convert


_URL = 'https?://[^ ?#]{1,900}/%s/%s'
_IMAGE_URL = params.string(pattern='^' + _URL % ('images', '[0-9a-fA-F-]{36}') + '$')
IMAGE_REF = params.Type({'type': 'string', 'anyOf': [params.UUID, _IMAGE_URL]}, convert=_id_in('images'))
IMAGE_REF_OR_NONE = params.Type({'type': 'string', 'anyOf': [params.UUID, {'maxLength': 0}, _IMAGE_URL]},
                                convert=_id_in('images'))
_FLAVOR_URL = params.string(pattern='^' + _URL % ('flavors', '[^ /?#]{1,255}') + '$')
FLAVOR_REF = params.Type({'type': ['string', 'integer'], 'minLength': 1, 'anyOf': [{'maxLength': 255}, _FLAVOR_URL]},
                         convert=_id_in('flavors'))
ACCESS_IPV6 = params.Type(params.IPV6, convert=lambda text: str(ipaddress.IPv6Address(text)))   # canonical form
TAG = params.string(1, 60, '^[^,/]*$')
TAGS = params.Array(TAG, maxItems=50)
DESCRIPTION = params.nullable(params.string(0, 255, format='printable'))
DISK_CONFIG = {'enum': ['AUTO', 'MANUAL']}
_USER_DATA = params.string(max_length=65535, format='base64')
USER_DATA = params.Type(_USER_DATA, secret=True, relaxed=params.nullable(_USER_DATA))
PASSWORD = params.Type(params.STRING, secret=True)
TRUSTED_CERTS = {'type': ['array', 'null'], 'items': params.string(1, 255), 'minItems': 1, 'maxItems': 50,
                 'uniqueItems': True}
PERSONALITY = params.Array(params.Object(
    params.Param('path', params.string(1, 4096), required=True),
    params.Param('contents', params.Type(params.string(format='base64'), secret=True), required=True)))
# until 2.93 one DNS label; since 2.94 a name with dots
HOSTNAME = params.string(2, 63, '^[a-zA-Z0-9]+[a-zA-Z0-9-]*[a-zA-Z0-9]+$')
FQDN = params.string(1, 255, '^[a-zA-Z0-9-._]*$')
_HOSTNAME = (params.Param('hostname', HOSTNAME, since=90, until=93), params.Param('hostname', FQDN, since=94))

_SIZE = params.integer(1, params.MAX_INT)
_BOOT_INDEX = params.Type({'type': ['integer', 'string', 'null'], 'pattern': '^-?[0-9]{1,9}$', 'minimum': -999999999,
                           'maximum': 999999999}, convert=lambda value: None if value is None else int(value))

_DEVICE = (
    params.Param('virtual_name', params.string(max_length=255)),
    params.Param('volume_id', params.UUID),
    params.Param('snapshot_id', params.UUID),
    params.Param('volume_size', _SIZE),
    params.Param('device_name', params.string(1, 255, '^[a-zA-Z0-9._/-]*$')),
    params.Param('delete_on_termination', params.BOOLEAN),
    params.Param('no_device', ANY),
    params.Param('connection_info', params.Type(params.string(max_length=16777215), secret=True)),
)

DEVICE = params.Object(*_DEVICE)
DEVICE_V2 = params.Object(
    *_DEVICE,
    params.Param('source_type', {'enum': ['volume', 'image', 'snapshot', 'blank']}),
    params.Param('uuid', params.string(1, 255, '^[a-zA-Z0-9._-]*$')),
    params.Param('image_id', params.UUID),
    params.Param('destination_type', {'enum': ['local', 'volume']}),
    params.Param('guest_format', params.string(max_length=255)),
    params.Param('device_type', params.string(max_length=255)),
    params.Param('disk_bus', params.string(max_length=255)),
    params.Param('boot_index', _BOOT_INDEX),
    params.Param('tag', TAG, since=32, until=32),
    params.Param('tag', TAG, since=42),
    params.Param('volume_type', params.nullable(params.string(0, 255)), since=67),
)

NETWORK = params.Object(
    params.Param('fixed_ip', {'type': 'string', 'anyOf': [params.IPV4, params.IPV6]}),
    params.Param('port', params.nullable(params.UUID)),
    params.Param('uuid', params.STRING, until=36),
    params.Param('uuid', params.UUID, since=37),
    params.Param('tag', TAG, since=32, until=36),
    params.Param('tag', TAG, since=42),
)


class _Networks:
    """Value of ``networks``: a list, or since 2.37 'auto' or 'none'."""

    _list = params.Array(NETWORK, maxItems=MAX_DEVICES)

    def schema(self, version: int, relaxed: bool = False) -> params.Schema:
        networks = self._list.schema(version, relaxed)
        return {'oneOf': [networks, {'enum': ['none', 'auto']}]} if version >= 37 else networks

    def converter(self, version: int, relaxed: bool = False) -> None:
        return None

    def prune(self, value: Json, version: int) -> Json:
        return self._list.prune(value, version)


_ONE_OR_MORE = {'anyOf': [params.UUID, {'type': 'array', 'items': params.UUID, 'maxItems': MAX_HINTS}]}
_NAMES = {'anyOf': [params.string(1, 255), {'type': 'array', 'items': params.string(1, 255), 'maxItems': MAX_HINTS}]}
HINTS = params.Object(
    params.Param('group', _NAMES),                  # ID or name of a group of the project
    params.Param('different_host', _ONE_OR_MORE),
    params.Param('same_host', _ONE_OR_MORE),
    params.Param('query', {'type': ['string', 'object'], 'maxLength': 4096, 'maxProperties': MAX_HINTS}),
    params.Param('target_cell', params.string(1, 255, format='name')),
    params.Param('different_cell', {'type': ['string', 'array'], 'items': params.STRING, 'maxItems': MAX_HINTS}),
    params.Param('build_near_host_ip', {'type': 'string', 'anyOf': [params.IPV4, params.IPV6]}),
    params.Param('cidr', params.string(pattern='^/[0-9a-f.:]+$')),
    closed=False, maxProperties=MAX_HINTS)

class _Server(params.Object):
    """A new server. flavorRef is optional with a category, because the category may have a default flavor."""

    def schema(self, version: int, relaxed: bool = False) -> params.Schema:
        required = [param.name for param in self.at(version) if param.required]
        return {**super().schema(version, relaxed), 'if': {'not': {'required': [CATEGORY]}},
                'then': {'required': required}, 'required': [name for name in required if name != 'flavorRef']}


SERVER = _Server(
    params.Param('name', params.NAME, required=True),
    params.Param('imageRef', IMAGE_REF_OR_NONE),
    params.Param('flavorRef', FLAVOR_REF, required=True),
    params.Param('adminPass', PASSWORD),
    params.Param('metadata', params.METADATA),
    params.Param('networks', _Networks(), until=36),
    params.Param('networks', _Networks(), since=37, required=True),
    params.Param('OS-DCF:diskConfig', DISK_CONFIG),
    params.Param('accessIPv4', params.IPV4),
    params.Param('accessIPv6', ACCESS_IPV6),
    params.Param('personality', PERSONALITY, until=56),
    params.Param('availability_zone', params.NAME),
    params.Param('block_device_mapping', params.Array(DEVICE, maxItems=MAX_DEVICES)),
    params.Param('block_device_mapping_v2', params.Array(DEVICE_V2, maxItems=MAX_DEVICES)),
    params.Param('config_drive', params.BOOLEAN),
    params.Param('key_name', params.NAME),
    params.Param('min_count', params.integer(1, params.MAX_INT)),
    params.Param('max_count', params.integer(1, params.MAX_INT)),
    params.Param('return_reservation_id', params.BOOLEAN),
    params.Param('security_groups', params.Array(params.Object(params.Param('name', params.NAME)),
                                                 maxItems=MAX_DEVICES)),
    params.Param('user_data', USER_DATA),
    params.Param('description', DESCRIPTION, since=19),
    params.Param('tags', TAGS, since=52),
    params.Param('trusted_image_certificates', TRUSTED_CERTS, since=63),
    params.Param('host', params.HOST, since=74),
    params.Param('hypervisor_hostname', params.HOST, since=74),
    *_HOSTNAME,
    params.Param(CATEGORY, params.string(1, 255)),
)
# content of ``server`` in a request
ServerValues = TypedDict('ServerValues', {
    'name': str, 'imageRef': str, 'flavorRef': str, 'adminPass': str, 'metadata': dict[str, str],
    'networks': list[dict[str, str | None]] | str, 'OS-DCF:diskConfig': str, 'accessIPv4': str, 'accessIPv6': str,
    'personality': list[dict[str, str]], 'availability_zone': str | None,
    'block_device_mapping': list[dict[str, Any]],
    'block_device_mapping_v2': list[dict[str, Any]], 'config_drive': bool, 'key_name': str, 'min_count': int,
    'max_count': int, 'return_reservation_id': bool, 'security_groups': list[dict[str, str]], 'user_data': str,
    'description': str | None, 'tags': list[str], 'trusted_image_certificates': list[str] | None, 'host': str,
    'hypervisor_hostname': str, 'hostname': str, 'os-instance-categories:category': str}, total=False)
CreateBody = TypedDict('CreateBody', {
    'server': ServerValues, 'os:scheduler_hints': JsonObject, 'OS-SCH-HNT:scheduler_hints': JsonObject}, total=False)
CREATE = params.Object(params.Param('server', SERVER, required=True),
                       *(params.Param(name, HINTS) for name in ('os:scheduler_hints', 'OS-SCH-HNT:scheduler_hints')))

UPDATE = params.document(
    'server', params.Param('name', params.NAME),
    params.Param('OS-DCF:diskConfig', DISK_CONFIG),
    params.Param('accessIPv4', params.IPV4),
    params.Param('accessIPv6', ACCESS_IPV6),
    params.Param('description', DESCRIPTION, since=19),
    *_HOSTNAME,
    params.Param('pinned_availability_zone', params.nullable(params.string(1, 255)), since=104))

REBUILD = params.Object(
    params.Param('name', params.NAME),
    params.Param('imageRef', IMAGE_REF, required=True),
    params.Param('adminPass', PASSWORD),
    params.Param('metadata', params.METADATA),
    params.Param('preserve_ephemeral', params.BOOLEAN),
    params.Param('OS-DCF:diskConfig', DISK_CONFIG),
    params.Param('accessIPv4', params.IPV4),
    params.Param('accessIPv6', ACCESS_IPV6),
    params.Param('personality', PERSONALITY, until=56),
    params.Param('description', DESCRIPTION, since=19),
    params.Param('key_name', params.nullable(params.string(1, 255)), since=54),
    params.Param('user_data', params.Type(params.nullable(_USER_DATA), secret=True), since=57),
    params.Param('trusted_image_certificates', TRUSTED_CERTS, since=63),
    *_HOSTNAME,
)


def action(name: str, *types: VersionedType) -> params.Object:
    """Return the body schema of an action. ``types``: (type, first and last minor version); default: any value."""
    rows = types or ((ANY, 1, None),)
    return params.Object(*(params.Param(name, type_, since=since, until=until, required=True)
                           for type_, since, until in rows))


REBOOT = params.Object(params.Param('type', {'enum': ['HARD', 'Hard', 'hard', 'SOFT', 'Soft', 'soft']}, required=True))
CREATE_IMAGE = params.Object(params.Param('name', params.NAME, required=True),
                             params.Param('metadata', params.METADATA))
CONSOLE_OUTPUT = params.Object(params.Param('length', params.Type(
    {'type': ['integer', 'string', 'null'], 'pattern': '^-?[0-9]{1,9}$', 'minimum': -1, 'maximum': params.MAX_INT},
    convert=lambda value: None if value is None else int(value))))
RESET_STATE = params.Object(params.Param('state', {'enum': ['active', 'error']}, required=True))
LOCK = params.Object(params.Param('locked_reason', params.string(1, 255)), nullable=True)

METADATA_BODY = params.Object(params.Param('metadata', params.METADATA, required=True))
META_BODY = params.Object(params.Param('meta', params.METADATA, required=True))
TAGS_BODY = params.Object(params.Param('tags', TAGS, required=True))

# ---- lists -------------------------------------------------------------------

# filters of lists: values of PATTERNS are regular expressions, values of PLAIN are not
PATTERNS = ('kernel_id', 'ramdisk_id', 'hostname', 'key_name', 'power_state', 'node', 'flavor',
            'reservation_id', 'launched_at', 'terminated_at', 'availability_zone', 'name', 'display_name',
            'description', 'display_description', 'locked_by', 'root_device_name', 'config_drive',
            'access_ip_v4', 'access_ip_v6', 'auto_disk_config', 'progress', 'ip', 'ip6', 'created_at')
PLAIN = ('user_id', 'project_id', 'tenant_id', 'launch_index', 'image_ref', 'image', 'vm_state', 'task_state',
         'host', 'uuid', 'sort_dir', 'all_tenants', 'soft_deleted', 'deleted', 'status', 'marker')
# filters that are accepted and ignored: OpenStack's Nova accepted these names of related tables
WITHOUT_EFFECT = ('block_device_mapping', 'services', 'metadata', 'system_metadata', 'info_cache',
                  'security_groups', 'pci_devices')

# sort key -> column; None: the key is ignored until 2.74
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


LIST = params.Query(
    *(params.Param(name, params.REGEX) for name in PATTERNS),
    *(params.Param(name, params.STRING) for name in (*PLAIN, *WITHOUT_EFFECT)),
    params.Param('sort_key', _sort_keys(SORT_KEYS, OLD_SORT_KEYS), until=74),
    params.Param('sort_key', _sort_keys(SORT_KEYS, {'locked': 'locked'}), since=75),
    params.Param('limit', params.LIMIT),
    params.Param('changes-since', params.DATE_TIME),
    params.Param('changes-before', params.DATE_TIME, since=66),
    *(params.Param(name, params.REGEX, since=26) for name in ('tags', 'tags-any', 'not-tags', 'not-tags-any')),
    params.Param('locked', params.STRING, since=73),
    params.Param(CATEGORY, params.STRING),
    params.Param(None, params.STRING, pattern='^_'),
    closed=75)

ACTIONS = params.Query(params.Param('limit', params.LIMIT, since=58), params.Param('marker', params.STRING, since=58),
                       params.Param('changes-since', params.DATE_TIME, since=58),
                       params.Param('changes-before', params.DATE_TIME, since=66), closed=58, single=58)
NOTHING = params.Query(closed=102)
OF_CATEGORY = params.Query(params.Param(CATEGORY, params.STRING))       # category of an administrative server
