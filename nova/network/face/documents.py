"""The documents of no resource: versions, extensions, quotas, and empty collections."""
import collections.abc
import typing

from nova import exception
from nova.network.face import pages
from nova.network.face import quotas
from nova.web.request import Request
from nova.web.routes import Route

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

# first segments of paths that belong to no project: a token without one may read them
UNSCOPED = ('extensions', 'availability_zones', 'service_providers')


def version(url):
    """:param url: of the service's root"""
    return {'id': 'v2.0', 'status': 'CURRENT', 'links': [{'rel': 'self', 'href': url + '/v2.0/'}]}


def extensions():
    return [{'alias': alias, 'name': name, 'description': name, 'updated': '2016-01-01T10:00:00-00:00',
             'links': []} for alias, name in EXTENSIONS]


def zones():
    return [{'name': 'nova', 'resource': 'network', 'state': 'available'}]


# ---- handlers ------------------------------------------------------------------

def list_extensions(req: Request) -> dict:
    return {'extensions': extensions()}


def show_extension(req: Request, alias: str) -> dict:
    for extension in extensions():
        if extension['alias'] == alias:
            return {'extension': extension}
    raise exception.ExtensionNotFound(alias=alias)


def list_zones(req: Request) -> dict:
    return {'availability_zones': pages.fields(req.query, zones())}


def list_quotas(req: Request) -> dict:
    return {'quotas': []}


def show_quotas(req: Request, project: str) -> dict:
    if project in ('tenant', 'project'):
        return {project: {f'{project}_id': req.context.project_id}}
    return show_defaults(req, project)


def show_defaults(req: Request, project: str) -> dict:
    _check_project(req, project)
    return {'quota': quotas.limits(req.face.conf)}


def show_details(req: Request, project: str) -> dict:
    _check_project(req, project)
    with req.face.api_db.reader() as conn:
        return {'quota': quotas.details(conn, req.face.conf, project)}


def _check_project(req: Request, project: str) -> None:
    if project != req.context.project_id and not req.context.is_admin:
        raise exception.NotFound()


def _empty(name: str) -> collections.abc.Callable[[Request], dict]:
    """A handler that lists nothing."""
    key = name.rpartition('/')[2].replace('-', '_')
    return lambda req: {key: []}


def routes(resources: dict[str, typing.Any]) -> collections.abc.Iterator[Route]:
    """The rows of these documents.

    :param resources: {path: Resource} of the index
    """
    def index(req: Request) -> dict:
        # a version document, too, for clients whose catalog names this path
        return {'version': version(req.root_url),
                'resources': [{'name': resource.singular, 'collection': resource.plural,
                               'links': [{'rel': 'self', 'href': f'{req.root_url}/v2.0/{path}'}]}
                              for path, resource in resources.items()]}
    for path, handler in (('', index), ('extensions', list_extensions), ('extensions/{alias}', show_extension),
                          ('availability_zones', list_zones), *((name, _empty(name)) for name in EMPTY),
                          ('quotas', list_quotas), ('quotas/{project}', show_quotas),
                          ('quotas/{project}/default', show_defaults), ('quotas/{project}/details', show_details)):
        yield Route('GET', f'/{path}', handler, any_scope=not path or path.partition('/')[0] in UNSCOPED)
