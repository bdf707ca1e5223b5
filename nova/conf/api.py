"""[api]: the compute API."""
from oslo_config import cfg

GROUP = 'api'

OPTIONS = [
    cfg.IntOpt('max_limit', default=1000, min=1, max=100000, mutable=True,
               help='Maximum number of items on one page of a list. A higher limit costs memory and time per '
                    'request.'),
    cfg.IntOpt('max_request_body_size', default=262144, min=1024, max=16777216,
               help='Maximum size of a request body in bytes. The API answers larger ones with 413. User data and '
                    'personality files of one server must fit.'),
    cfg.BoolOpt('enable_instance_password', default=True, mutable=True,
                help='Whether responses to create, rebuild, rescue and evacuate contain the password (adminPass). '
                     'A guest receives the password only through its config drive. False: for deployments whose '
                     'servers have no password.'),
    cfg.BoolOpt('nova_network_resources', default=False,
                help='Whether the API serves the resources of the former nova-network, for programs that still use '
                     'them. With embedded networks these are: addresses (os-fixed-ips), ranges of floating '
                     'addresses (os-floating-ips-bulk) and their names (os-floating-ip-dns), creating, deleting '
                     'and assigning networks (os-networks, os-tenant-networks), os-security-group-default-rules '
                     'and os-virtual-interfaces. Certificates of nova-cert (os-certificates) are served as well. '
                     'False: the API answers 410.'),
    cfg.MultiStrOpt('rate_limits', default=[],
                    help='One rate limit per line: "VERB URI REGEX VALUE UNIT". A project may send VALUE requests '
                         'per UNIT (SECOND, MINUTE, HOUR or DAY) with the method VERB (GET, POST, PUT, DELETE or '
                         'PATCH) and a path that matches REGEX. The path excludes the version and the project and '
                         'includes the query. URI is the name of the limit in GET /limits. Example: "POST */servers '
                         '^/servers 120 MINUTE". A request counts against every line that it matches. '
                         'Administrators and the role service are not limited. The line "guide" stands for the '
                         'sample rates of the API guide. Empty: no limits.'),
    cfg.IntOpt('max_waiting_builds', default=1000, min=0, max=1000000,
               help='Maximum number of servers that wait to be scheduled and built. At this number POST /servers '
                    'returns 503 with Retry-After. A project gets 503 when its own waiting servers reach three '
                    'quarters of this number. Choose the number of servers that the cloud builds in one minute: a '
                    'build request that waits for two minutes is considered lost and sent again. 0: no limit.'),
    cfg.IntOpt('cell_timeout', default=10, min=1, max=600, mutable=True,
               help='Seconds that a list request waits for a cell. A cell that does not answer in time counts as '
                    'down: its servers are left out, or shown with the data of the API database.'),
    cfg.BoolOpt('list_records_by_skipping_down_cells', default=True, mutable=True,
                help='Whether lists omit the servers of cells that are down, at microversions before 2.69, which '
                     'cannot report missing cells. False: such lists return 503, so that a client does not mistake '
                     'a partial list for a complete one.'),
    cfg.IntOpt('event_streams', default=8, min=0, max=10000,
               help='Maximum number of open event streams (GET /os-events) per API process. One project may use '
                    'half of them. Each open stream occupies a thread, in addition to [http] threads.'),
    cfg.IntOpt('idempotency_key_lifetime', default=86400, min=60, max=2592000, mutable=True,
               help='Seconds for which the API replays the response to a request with an Idempotency-Key. With a '
                    'longer lifetime clients can repeat older requests safely. The API database stores one row for '
                    'each such request.'),
    cfg.URIOpt('compute_link_prefix', schemes=['http', 'https'],
               help='URL that replaces scheme, host and path prefix in links to the compute API. Set it if clients '
                    'reach the API under another URL than that of the requests to this service. Empty: the URL '
                    'of the request.'),
    cfg.URIOpt('image_link_prefix', schemes=['http', 'https'],
               help='URL of the image service, including its version, for links to images. Example: '
                    'https://image.example.org/v2. Empty: /image/v2 at the host of the request.'),
    cfg.MultiStrOpt('vendordata_dynamic_targets', default=[],
                    help='Services that provide vendor_data2.json of the metadata service, one NAME@URL per line. '
                         'The metadata service sends each a POST that describes the server and stores the JSON '
                         'response under NAME. It contacts no other address. Empty: the document is empty.'),
    cfg.IntOpt('vendordata_dynamic_connect_timeout', default=5, min=1, max=60,
               help='Timeout in seconds for connecting to a vendordata service. The guest waits meanwhile.'),
    cfg.IntOpt('vendordata_dynamic_read_timeout', default=5, min=1, max=60,
               help='Timeout in seconds for reading from a vendordata service. The complete response must arrive '
                    'within the sum of the connect and read timeouts.'),
    cfg.BoolOpt('vendordata_dynamic_failure_fatal', default=False,
                help='Whether the guest gets an error when a vendordata service fails. False: an empty object '
                     'replaces the response.'),
]
