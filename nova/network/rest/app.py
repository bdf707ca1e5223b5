"""HTTP API of the embedded network service: the Networking API v2.0.

Middleware in front of this application sets ``environ['nova.context']``. Each resource in RESOURCES has the same
operations. The module ``documents`` handles all other paths.
"""
import typing
from wsgiref.types import WSGIEnvironment

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova import policies
from nova import policy
from nova.db.audit import log
from nova.db.engine import Database
from nova.network.rest import address_groups
from nova.network.rest import address_scopes
from nova.network.rest import agents
from nova.network.rest import documents
from nova.network.rest import faults
from nova.network.rest import flavors
from nova.network.rest import floating_ips
from nova.network.rest import group_templates
from nova.network.rest import groups
from nova.network.rest import networks
from nova.network.rest import openapi
from nova.network.rest import operations
from nova.network.rest import permissions
from nova.network.rest import ports
from nova.network.rest import qos
from nova.network.rest import routers
from nova.network.rest import sharing
from nova.network.rest import subnet_pools
from nova.network.rest import topology
from nova.network.rest import trunks
from nova.network.rest.request import Deps
from nova.network.rest.request import NetworkClient
from nova.network.rest.request import NetworkRequest
from nova.network.rest.rows import Resource
from nova.network.rest.servers import Servers
from nova.web import application
from nova.web import params
from nova.web.mapper import Methods
from nova.web.request import BaseRequest
from nova.web.request import Response
from nova.web.routes import Route

RESOURCES: dict[str, Resource[typing.Any, typing.Any]] = {resource.path: resource for resource in
             (networks.NETWORKS, networks.SUBNETS, address_scopes.SCOPES, subnet_pools.POOLS, ports.PORTS,
              trunks.TRUNKS,
              address_groups.GROUPS, groups.GROUPS, groups.RULES, group_templates.TEMPLATES,
              routers.ROUTERS, floating_ips.FLOATING_IPS, flavors.FLAVORS,
              flavors.PROFILES, sharing.SHARES, qos.POLICIES)}
ROUTES = (*documents.routes(RESOURCES), *qos.ROUTES, *topology.ROUTES, *agents.ROUTES,
          *(row for resource in RESOURCES.values() for row in operations.routes(resource)))


DOCUMENT = 'openapi.json'            # path of the OpenAPI document below the mount point


def is_public(environ: WSGIEnvironment) -> bool:
    """Return whether a request needs no token: it is for a version document or the OpenAPI document."""
    return environ.get('PATH_INFO', '').rstrip('/') in ('', '/v2.0', '/' + DOCUMENT)


def _resource(row: Route) -> Resource[typing.Any, typing.Any] | None:
    """Return the Resource that a route belongs to, or None if it belongs to none."""
    _, first, *more = row.path.split('/')
    return RESOURCES.get(first) or RESOURCES.get('/'.join([first, *more[:1]])) or next(
        (resource for resource in RESOURCES.values() if resource.at and resource.plural == first), None)


class NetworkApi(application.Api[NetworkRequest]):
    """Dispatches requests below /v2.0; a suffix .json of the path is ignored."""

    def __init__(self, deps: Deps) -> None:
        super().__init__(ROUTES)
        self._deps = deps

    def request(self, environ: WSGIEnvironment) -> NetworkRequest:
        return NetworkRequest(environ, self._deps)

    def find(self, req: NetworkRequest) -> tuple[Methods | None, list[str]] | Response:
        segments = [segment for segment in req.path.split('/') if segment]
        if not segments:
            if req.method != 'GET':
                raise exception.MethodNotAllowed()
            return Response({'versions': [documents.version(req.root_url)]}, 200)
        if segments == [DOCUMENT] and req.method == 'GET':
            return openapi.DESCRIBER.response(req, ROUTES, openapi.VERSION)
        if segments.pop(0) != 'v2.0':
            raise exception.NotFound()
        if req.context is None:
            raise exception.Unauthorized()
        if segments:
            segments[-1] = segments[-1].removesuffix('.json')
        return self.mapper.find(segments, req.method)

    def admit(self, req: NetworkRequest, row: Route, parts: application.Parts) -> None:
        if row.any_scope:
            return
        resource = _resource(row)
        if not req.context.project_id and resource is not None:
            log.named(f'network:{req.method.lower()}', target_type=resource.path)
        req.context.require_project()

    def authorize(self, req: NetworkRequest, row: Route, parts: application.Parts) -> None:
        resource = _resource(row)
        if resource is not None:
            log.named(f'network:{row.called}', code=row.status,
                      target_type=resource.plural, target_id=parts.get('id'), route='/v2.0' + row.path)
        req.context.rules = self._deps.rules
        if row.policy is not None:
            permissions.authorize(req.context, row.policy, permissions.target({
                'project_id': parts.get('project', req.context.project_id)}))
        if row.query is None:
            req.query = params.parse_pairs(req.environ)

    def fault(self, req: BaseRequest, error: Exception) -> Response:
        return faults.answer(error, req.environ.get('openstack.request_id'))


def Application(conf: ConfigOpts, api_db: Database, network_rpc: NetworkClient | None = None,
                servers: Servers | None = None, rules: policy.Policy | None = None) -> application.Application:
    """Return the WSGI application, to be mounted at /network; the parameters are those of Deps."""
    rules = rules or policy.Policy(None, policies.NETWORK)
    return application.Application(NetworkApi(Deps(conf, api_db, network_rpc, servers, rules)))
