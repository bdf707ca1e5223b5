"""[api]: the compute API."""
from oslo_config import cfg

GROUP = 'api'

OPTIONS = [
    cfg.IntOpt('max_limit', default=1000, min=1, max=100000, mutable=True,
               help='Items that one page of a list has at most. More costs memory and time per request.'),
    cfg.IntOpt('max_request_body_size', default=262144, min=1024, max=16777216,
               help='Bytes of a request body at most; a larger one is answered with 413. '
                    'User data and personality files of one server must fit.'),
    cfg.BoolOpt('enable_instance_password', default=True, mutable=True,
                help='Whether answers to create, rebuild, rescue and evacuate show the password (adminPass). A guest '
                     'gets it by its config drive alone. False: for deployments whose servers have none.'),
    cfg.BoolOpt('nova_network_resources', default=False,
                help='Whether resources that only a network service within the compute service had are there again, '
                     'for programs that use them: addresses (os-fixed-ips), ranges of floating addresses '
                     '(os-floating-ips-bulk) and their names (os-floating-ip-dns), networks that are made, deleted and '
                     'given to projects (os-networks, '
                     'os-tenant-networks), os-security-group-default-rules, os-virtual-interfaces, on the '
                     'embedded one; certificates of nova-cert (os-certificates). False: 410, as everywhere.'),
    cfg.MultiStrOpt('rate_limits', default=[],
                    help='One rate a line, "VERB URI REGEX VALUE UNIT": a project may send VALUE requests a UNIT '
                         '(SECOND, MINUTE, HOUR or DAY) of the VERB (GET, POST, PUT, DELETE or PATCH) whose path, '
                         'below the version and the project and with its query, has a match of REGEX; URI is what '
                         'GET /limits shows for it. Example: "POST */servers ^/servers 120 MINUTE". Every line that '
                         'matches counts. Administrators and the role service are not limited. '
                         'The line "guide" stands for the sample rates of the API guide. None: no rate is counted.'),
    cfg.IntOpt('max_waiting_builds', default=1000, min=0, max=1000000,
               help='Servers that may wait to be placed and built. While there are so many, POST /servers is answered '
                    'with 503 and Retry-After, and to a project that has three quarters of them. What the cloud builds '
                    'in a minute is a good value: servers that wait for two minutes are taken for lost and sent '
                    'again. 0: no bound.'),
    cfg.IntOpt('cell_timeout', default=10, min=1, max=600, mutable=True,
               help='Seconds that a listing waits for a cell. One that does not answer by then counts as down: '
                    'its servers are left out, or shown with what the API database knows of them.'),
    cfg.BoolOpt('list_records_by_skipping_down_cells', default=True, mutable=True,
                help='Whether lists leave out what is in a cell that does not answer, at microversions before 2.69, '
                     'which cannot say so. False: they are answered with 503, so that no client takes a part for all.'),
    cfg.IntOpt('event_streams', default=8, min=0, max=10000,
               help='Event streams (GET /os-events) that one API process serves at once, half of them at most to one '
                    'project. Each holds a thread for as long as it is open, in addition to those of [http] threads.'),
    cfg.IntOpt('idempotency_key_lifetime', default=86400, min=60, max=2592000, mutable=True,
               help='Seconds for which the answer to a request with an Idempotency-Key is given again. Longer lets '
                    'clients repeat older requests safely, and keeps a row of each in the API database.'),
    cfg.URIOpt('compute_link_prefix', schemes=['http', 'https'],
               help='URL that stands for scheme, host and path prefix in links to the compute API, where '
                    'clients reach it under another name than the service itself. '
                    'Empty: what the request came with.'),
    cfg.URIOpt('image_link_prefix', schemes=['http', 'https'],
               help='URL of the image service, with its version, in links to images, as https://image.example.org/v2. '
                    'Empty: /image/v2 at the host of the request.'),
    cfg.MultiStrOpt('vendordata_dynamic_targets', default=[],
                    help='One service a line, NAME@URL, that vendor_data2.json of the metadata service is fetched '
                         'from: it is sent a POST that describes the server, and its JSON stands below NAME. No other '
                         'address is contacted. None: the document is empty.'),
    cfg.IntOpt('vendordata_dynamic_connect_timeout', default=5, min=1, max=60,
               help='Seconds to connect to one of these services: the guest waits.'),
    cfg.IntOpt('vendordata_dynamic_read_timeout', default=5, min=1, max=60,
               help='Seconds to wait for its answer; all of it must have come within the sum of both times.'),
    cfg.BoolOpt('vendordata_dynamic_failure_fatal', default=False,
                help='Whether the guest gets an error when one of them fails. False: an empty object in its place.'),
]
