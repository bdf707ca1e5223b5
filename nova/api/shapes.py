"""JSON types of nested response fields, in the words of nova.web.json_types."""
from nova.web.fields import Shape

# Request header of the EC2 API: with the value 'label' the device name of a volume is stored as sent. EC2 clients
# look up an attachment by this name, although the guest names its disks itself.
DEVICE_NAME = 'X-Nova-Device-Name'

ADDRESSES = Shape(
    ('', 'object required'),
    ('.<^.*$>', 'array'),
    ('.<^.*$>[]', 'object'),
    ('.<^.*$>[].addr', 'string oneOf(format=ipv4 / format=ipv6) required'),
    ('.<^.*$>[].version', 'number one of 4,6 required'),
    ('.<^.*$>[].OS-EXT-IPS:type', 'string one of fixed,floating required'),
    ('.<^.*$>[].OS-EXT-IPS-MAC:mac_addr', 'string format=mac-address required'),
)
COUNTS = Shape(
    ('', 'object required'),
    ('.waiting', 'integer minimum=0 required'),
    ('.moving', 'integer minimum=0 required'),
    ('.moved', 'integer minimum=0 required'),
    ('.failed', 'integer minimum=0 required'),
    ('.skipped', 'integer minimum=0 required'),
    ('.deleted', 'integer minimum=0 required'),
)
CPU_PINNING = Shape(
    ('', 'object'),
    ('.<^[0-9]+$>', 'integer'),
)
DELETE_ON_TERMINATION = (
    'boolean|string one of True,True,TRUE,true,1,ON,On,on,YES,Yes,yes,False,False,FALSE,false,0,OFF,Off,off,NO,'
    'No,no required')
DISABLED_REASON = Shape(
    ('', 'string|null required', 1, 68),
    ('', 'string|null', 69),
)
EXTRA_SPECS = Shape(
    ('', 'object'),
    ('.<^[a-zA-Z0-9-_:. ]{1,255}$>', 'string maxLength=255'),
)
FAULT = Shape(
    ('', 'object'),
    ('.code', 'integer required'),
    ('.created', 'string format=date-time required'),
    ('.details', 'string'),
    ('.message', 'string required'),
)
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
    ('.id', 'string format=uuid'),
    ('.links', 'array'),
    ('.links[]', 'object'),
    ('.links[].rel', 'string one of self,bookmark required'),
    ('.links[].href', 'string format=uri required'),
    ('.properties', 'object'),
    ('.properties.<^[a-zA-Z0-9_:. ]{1,255}$>', 'string|null maxLength=255'),
    ('', 'string|object required'),
    ('.properties.<^.+$>', 'string|null'),
)
FIELDS_LINKS = Shape(
    ('', 'array required'),
    ('[]', 'object'),
    ('[].rel', 'string one of self,bookmark required'),
    ('[].href', 'string format=uri required'),
)
FIELDS_METADATA = Shape(
    ('', 'object required'),
    ('.<^.+$>', 'string'),
)
FIELDS_STATUS = (
    'string one of ACTIVE,BUILD,DELETED,ERROR,HARD_REBOOT,MIGRATING,PASSWORD,PAUSED,REBOOT,REBUILD,RESCUE,RESIZE,'
    'REVERT_RESIZE,SHELVED,SHELVED_OFFLOADED,SHUTOFF,SOFT_DELETED,SUSPENDED,UNKNOWN,VERIFY_RESIZE required')
FIELDS_VOLUMES_ATTACHED = Shape(
    ('', 'array required'),
    ('[]', 'object'),
    ('[].id', 'string required'),
    ('[].delete_on_termination', 'boolean required'),
)
FIXED_IPS = Shape(
    ('', 'null|array required'),
    ('[]', 'object'),
    ('[].ip_address', 'string anyOf(format=ipv4 / format=ipv6) required'),
    ('[].subnet_id', 'string format=uuid required'),
)
FLAVOR = Shape(
    ('', 'object required'),
    ('.id', 'string'),
    ('.links', 'array'),
    ('.links[]', 'object'),
    ('.links[].rel', 'string one of self,bookmark required'),
    ('.links[].href', 'string format=uri required'),
)
FORCED_DOWN = Shape(
    ('', 'boolean required', 1, 68),
    ('', 'boolean', 69),
)
HOSTS = Shape(
    ('', 'array|null required'),
    ('[]', 'string'),
)
ID = Shape(
    ('', 'string format=uuid required', 1, 68),
    ('', 'string format=uuid', 69),
)
IMAGE = Shape(
    ('.id', 'string format=uuid'),
    ('.links', 'array'),
    ('.links[]', 'object'),
    ('.links[].rel', 'string one of self,bookmark required'),
    ('.links[].href', 'string format=uri required'),
    ('', 'string|object required'),
)
LINKS = Shape(
    ('', 'array required'),
    ('[]', 'object'),
    ('[].href', 'string format=uri required'),
    ('[].rel', 'string required'),
)
MEMBERS = Shape(
    ('', 'array required'),
    ('[]', 'string format=uuid'),
)
METADATA = Shape(
    ('', 'object required'),
    ('.<^[a-zA-Z0-9-_:. ]{1,255}$>', 'array|boolean|integer|number|object|string|null'),
)
MIGRATIONS_LINKS = Shape(
    ('', 'array'),
    ('[]', 'object'),
    ('[].rel', 'string one of self,bookmark required'),
    ('[].href', 'string format=uri required'),
)
NAME = Shape(
    ('', 'allOf(string format=name minLength=1 maxLength=255 / string pattern ^[_\\- a-zA-Z0-9]+$ minLength=1 '
          'maxLength=255) required', 1, 91),
    ('', 'allOf(string format=name minLength=1 maxLength=255 / string pattern ^[_\\-\\@\\. a-zA-Z0-9]+$ '
          'minLength=1 maxLength=255) required', 92),
)
POLICIES = Shape(
    ('', 'array'),
    ('[]', 'string one of affinity,anti-affinity,soft-affinity,soft-anti-affinity,network-proximity,'
            'host-capabilities'),
)
POLICY = (
    'string one of affinity,anti-affinity,soft-affinity,soft-anti-affinity,network-proximity,host-capabilities, '
    'required')
REQUIREMENTS = Shape(
    ('', 'object required'),
    ('.<^[a-zA-Z0-9-_:. ]{1,255}$>', 'string'),
)
ROLES = Shape(
    ('', 'array required'),
    ('[]', 'string'),
)
RULES = Shape(
    ('', 'object required'),
    ('.max_server_per_host', 'integer'),
)
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
SECURITY_GROUPS = Shape(
    ('', 'array'),
    ('[]', 'object'),
    ('[].name', 'string required'),
)
SERVER = Shape(
    ('', 'object'),
    ('.id', 'string format=uuid required'),
    ('.links', 'array minItems=2 maxItems=2 required'),
)
SERVERS = Shape(
    ('', 'array'),
    ('[]', 'object'),
    ('[].name', 'string required'),
    ('[].uuid', 'string format=uuid required'),
)
SERVER_GROUPS = Shape(
    ('', 'array maxLength=1 required'),
    ('[]', 'string format=uuid'),
)
SERVICE = Shape(
    ('', 'object required'),
    ('.disabled_reason', 'null|string required'),
    ('.host', 'string required'),
    ('.id', 'integer required', 1, 52),
    ('.id', 'string format=uuid required', 53),
)
SERVICES_UPDATED_AT = Shape(
    ('', 'string|null format=date-time required', 1, 68),
    ('', 'string|null format=date-time', 69),
)
SIBLINGS = Shape(
    ('', 'array required'),
    ('[]', 'array'),
    ('[][]', 'integer'),
)
STATE = Shape(
    ('', 'string one of up,down required', 1, 68),
    ('', 'string one of up,down', 69),
)
STATUS = Shape(
    ('', 'string one of enabled,disabled required', 1, 68),
    ('', 'string one of enabled,disabled,UNKNOWN required', 69),
)
TAG = (
    'oneOf(string pattern ^[^,/]*$ minLength=1 maxLength=60 / null) required')
TAGS = Shape(
    ('', 'array maxItems=50 required'),
    ('[]', 'string'),
)
UPDATED_AT = Shape(
    ('', 'string|null format=date-time required', 1, 22),
    ('', 'string format=date-time required', 23),
)
VCPU_SET = Shape(
    ('', 'array required'),
    ('[]', 'integer'),
)
VOLUMES_ATTACHED = Shape(
    ('', 'array required'),
    ('[]', 'object'),
    ('[].id', 'string required'),
)
ZONE = Shape(
    ('', 'string required', 1, 68),
    ('', 'string', 69),
)
