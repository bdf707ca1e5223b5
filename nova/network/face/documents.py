"""The documents that do not come from rows: versions, extensions, and what this service has none of."""
EXTENSIONS = (
    ('availability_zone', 'Availability Zone'), ('binding', 'Port Binding'),
    ('filter-validation', 'Filter parameters validation'), ('net-mtu', 'Network MTU'),
    ('net-mtu-writable', 'Network MTU (writable)'),
    ('network_availability_zone', 'Network Availability Zone'),
    ('pagination', 'Pagination support'), ('port-security', 'Port Security'),
    ('project-id', 'project_id field enabled'), ('provider', 'Provider Network'),
    ('quotas', 'Quota management support'),
    ('quota_details', 'Quota details management support'), ('security-group', 'security-group'),
    ('sorting', 'Sorting support'), ('standard-attr-description', 'standard-attr-description'),
    ('standard-attr-revisions', 'Resource revision numbers'), ('standard-attr-timestamp',
                                                               'Resource timestamps'),
)
# collections that clients ask for and that are empty here
EMPTY = ('floatingips', 'routers', 'agents', 'subnetpools', 'address-scopes', 'address-groups', 'trunks',
         'rbac-policies', 'segments', 'service_providers', 'flavors', 'service-types', 'local-ips',
         'ndp-proxies',
         'metering/metering-labels', 'qos/policies', 'qos/rule-types', 'log/logs')

# first parts of paths that belong to no project: a token without one may read them
OF_NOBODY = ('extensions', 'availability_zones', 'service_providers')


def version(url):
    """:param url: of the service's root"""
    return {'id': 'v2.0', 'status': 'CURRENT', 'links': [{'rel': 'self', 'href': url + '/v2.0/'}]}


def extensions():
    return [{'alias': alias, 'name': name, 'description': name, 'updated': '2016-01-01T10:00:00-00:00',
             'links': []} for alias, name in EXTENSIONS]


def zones():
    return [{'name': 'nova', 'resource': 'network', 'state': 'available'}]
