"""JSON types of nested response fields, in the notation of nova.web.json_types."""
from nova.web.fields import Shape

# Header of requests from the EC2 API. With the value 'label', the API stores the device name of a volume as sent: EC2
# clients look up an attachment by this name, although the guest names its disks itself.
DEVICE_NAME = 'X-Nova-Device-Name'


def _object(words: str, **keys: str) -> Shape:
    """Return an object with these keys."""
    return Shape(('', words), *((f'.{key}', of) for key, of in keys.items()))


def _map(keys: str, of: str, words: str = 'object required') -> Shape:
    """Return an object with variable keys.

    :param keys: regular expression
    """
    return Shape(('', words), (f'.<{keys}>', of))


def _array(of: str, words: str = 'array required') -> Shape:
    return Shape(('', words), ('[]', of))


def _objects(words: str, **keys: str) -> Shape:
    """Return a list of objects with these keys."""
    return Shape(('', words), ('[]', 'object'), *((f'[].{key}', of) for key, of in keys.items()))


def _optional_since(version: int, words: str) -> Shape:
    """Return the shape of a value that is required before a version and optional since then."""
    return Shape(('', f'{words} required', 1, version - 1), ('', words, version))


_COUNT = 'integer minimum=0 required'
_KEY = '^[a-zA-Z0-9-_:. ]{1,255}$'
_UUID, _URL = 'string format=uuid required', 'string format=uri required'
_REL = 'string one of self,bookmark required'
_POLICIES = 'affinity,anti-affinity,soft-affinity,soft-anti-affinity,network-proximity,host-capabilities'
_NAME = ('allOf(string format=name minLength=1 maxLength=255 / string pattern ^[{}]+$ minLength=1 maxLength=255) '
         'required')
_MEMBERS_OF_FLAVOR = (('.id', 'string'), ('.links', 'array'), ('.links[]', 'object'), ('.links[].rel', _REL),
                      ('.links[].href', _URL))
_MEMBERS_OF_IMAGE = (('.id', 'string format=uuid'), *_MEMBERS_OF_FLAVOR[1:])

ADDRESSES = Shape(
    ('', 'object required'),
    ('.<^.*$>', 'array'),
    ('.<^.*$>[]', 'object'),
    ('.<^.*$>[].addr', 'string oneOf(format=ipv4 / format=ipv6) required'),
    ('.<^.*$>[].version', 'number one of 4,6 required'),
    ('.<^.*$>[].OS-EXT-IPS:type', 'string one of fixed,floating required'),
    ('.<^.*$>[].OS-EXT-IPS-MAC:mac_addr', 'string format=mac-address required'),
)
COUNTS = _object('object required', **dict.fromkeys(('waiting', 'moving', 'moved', 'failed', 'skipped', 'deleted'),
                                                    _COUNT))
CPU_PINNING = _map('^[0-9]+$', 'integer', 'object')
DELETE_ON_TERMINATION = (
    'boolean|string one of True,True,TRUE,true,1,ON,On,on,YES,Yes,yes,False,False,FALSE,false,0,OFF,Off,off,NO,'
    'No,no required')
DISABLED_REASON = _optional_since(69, 'string|null')
EXTRA_SPECS = _map(_KEY, 'string maxLength=255', 'object')
FAULT = _object('object', code='integer required', created='string format=date-time required', details='string',
                message='string required')
FIELDS_FLAVOR = Shape(
    ('', 'object required'),
    ('.disk', 'integer required'),
    ('.ephemeral', 'integer required'),
    ('.extra_specs', 'object'),
    ('.extra_specs.<^.+$>', 'string'),
    ('.original_name', 'string required'),
    ('.ram', 'integer required'),
    ('.swap', 'integer required'),
    ('.vcpus', 'integer required'),
)
FIELDS_IMAGE = Shape(
    *_MEMBERS_OF_IMAGE,
    ('.properties', 'object'),
    ('.properties.<^[a-zA-Z0-9_:. ]{1,255}$>', 'string|null maxLength=255'),
    ('', 'string|object required'),
    ('.properties.<^.+$>', 'string|null'),
)
FIELDS_LINKS = _objects('array required', rel=_REL, href=_URL)
FIELDS_METADATA = _map('^.+$', 'string')
FIELDS_STATUS = (
    'string one of ACTIVE,BUILD,DELETED,ERROR,HARD_REBOOT,MIGRATING,PASSWORD,PAUSED,REBOOT,REBUILD,RESCUE,RESIZE,'
    'REVERT_RESIZE,SHELVED,SHELVED_OFFLOADED,SHUTOFF,SOFT_DELETED,SUSPENDED,UNKNOWN,VERIFY_RESIZE required')
FIELDS_VOLUMES_ATTACHED = _objects('array required', id='string required', delete_on_termination='boolean required')
FIXED_IPS = _objects('null|array required', ip_address='string anyOf(format=ipv4 / format=ipv6) required',
                     subnet_id=_UUID)
FLAVOR = Shape(('', 'object required'), *_MEMBERS_OF_FLAVOR)
FORCED_DOWN = _optional_since(69, 'boolean')
HOSTS = _array('string', 'array|null required')
ID = _optional_since(69, 'string format=uuid')
IMAGE = Shape(*_MEMBERS_OF_IMAGE, ('', 'string|object required'))
LINKS = _objects('array required', href=_URL, rel='string required')
MEMBERS = _array('string format=uuid')
METADATA = _map(_KEY, 'array|boolean|integer|number|object|string|null')
MIGRATIONS_LINKS = _objects('array', rel=_REL, href=_URL)
NAME = Shape(('', _NAME.format(r'_\- a-zA-Z0-9'), 1, 91), ('', _NAME.format(r'_\-\@\. a-zA-Z0-9'), 92))
POLICIES = _array(f'string one of {_POLICIES}', 'array')
POLICY = f'string one of {_POLICIES}, required'
REQUIREMENTS = _map(_KEY, 'string')
ROLES = _array('string')
RULES = _object('object required', max_server_per_host='integer')
SCHEDULER_HINTS = Shape(
    ('', 'object required'),
    ('.group', 'array'),
    ('.group[]', 'string format=uuid'),
    ('.different_host', 'array'),
    ('.different_host[]', 'string format=uuid'),
    ('.same_host', 'string|array'),
    ('.same_host[]', 'string format=uuid'),
    ('.query', 'string|object'),
    ('.target_cell', 'string format=name minLength=1 maxLength=255'),
    ('.different_cell', 'string|array'),
    ('.different_cell[]', 'string'),
    ('.build_near_host_ip', 'string oneOf(format=ipv4 / format=ipv6)'),
    ('.cidr', 'string pattern ^/[0-9a-f.:]+$'),
    ('.<^.+$>', ''),
)
SECURITY_GROUPS = _objects('array', name='string required')
SERVER = _object('object', id=_UUID, links='array minItems=2 maxItems=2 required')
SERVERS = _objects('array', name='string required', uuid=_UUID)
SERVER_GROUPS = _array('string format=uuid', 'array maxLength=1 required')
SERVICE = Shape(
    ('', 'object required'),
    ('.disabled_reason', 'null|string required'),
    ('.host', 'string required'),
    ('.id', 'integer required', 1, 52),
    ('.id', _UUID, 53),
)
SERVICES_UPDATED_AT = _optional_since(69, 'string|null format=date-time')
SIBLINGS = Shape(('', 'array required'), ('[]', 'array'), ('[][]', 'integer'))
STATE = _optional_since(69, 'string one of up,down')
STATUS = Shape(
    ('', 'string one of enabled,disabled required', 1, 68),
    ('', 'string one of enabled,disabled,UNKNOWN required', 69),
)
TAG = 'oneOf(string pattern ^[^,/]*$ minLength=1 maxLength=60 / null) required'
TAGS = _array('string', 'array maxItems=50 required')
UPDATED_AT = Shape(
    ('', 'string|null format=date-time required', 1, 22),
    ('', 'string format=date-time required', 23),
)
VCPU_SET = _array('integer')
VOLUMES_ATTACHED = _objects('array required', id='string required')
ZONE = _optional_since(69, 'string')
