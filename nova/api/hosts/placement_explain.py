"""POST /os-scheduler/explain (an API extension): explain a scheduling decision without placing a server.

The body has the content of POST /servers, with the same validation, or the ID of an existing server. Quotas and
hosts are not changed, so a later request may get another result.
"""
import uuid as uuidlib

from nova import exception
from nova import objects
from nova.api import paging
from nova.api import request as api_request
from nova.api.servers import create as server_create
from nova.api.servers import lookup as server_lookup
from nova.api.servers import schemas as server_schemas
from nova.db.servers import request_specs
from nova.json_types import JsonDocument
from nova.objects import pci
from nova.web import params
from nova.web.routes import Route

KEY = 'explanation'
HOSTS = 20                       # default page size of each list in the response

BODY = params.Object(
    *(param for param in server_schemas.CREATE.params if param.name != 'server'),
    params.Param('server', server_schemas.SERVER),
    params.Param('server_id', params.UUID),
    params.Param('seed', params.UUID),
    oneOf=[{'required': ['server']}, {'required': ['server_id']}])
QUERY = params.Query(params.Param('limit', params.LIMIT), params.Param('offset', params.NON_NEGATIVE), closed=1)


def explain(req: api_request.Request) -> JsonDocument:
    seed = str(uuidlib.UUID(req.body['seed'])) if 'seed' in req.body else None
    limit = min(HOSTS, paging.limit(req)) if 'limit' not in req.query else paging.limit(req)
    page = {'limit': limit, 'offset': req.query.one('offset', 0)}
    return {KEY: (_existing if 'server_id' in req.body else _new)(req, seed, page)}


def _new(req: api_request.Request, seed: str | None, page: dict[str, int]) -> JsonDocument:
    """Explain the placement of new servers."""
    plan = server_create.read_plan(req)
    seeds = [seed or str(uuidlib.uuid4()), *(str(uuidlib.uuid4()) for _ in range(plan.most - 1))]
    spec = objects.RequestSpec(instance_uuid=seeds[0], num_instances=plan.most, admin_password=None, **plan.spec)
    return req.services.scheduler.explain(req.context, spec=spec, seeds=seeds, instance_uuid=None, **page)


def _existing(req: api_request.Request, seed: str | None, page: dict[str, int]) -> JsonDocument:
    """Explain the placement of an existing server."""
    if req.body.keys() - {'server_id', 'seed'}:
        raise exception.BadRequest('An existing server keeps its scheduler hints; omit them.')
    row = server_lookup.get(req, req.body['server_id'])
    with req.services.api_db.reader() as conn:
        spec = request_specs.get(conn, row['uuid'])
    spec.flavor = pci.with_ports(spec.flavor, pci.of_ports(row['flavor']).values())
    return req.services.scheduler.explain(req.context, spec=spec, seeds=[seed or row['uuid']],
                                          instance_uuid=row['uuid'], **page)


ROUTES = (
    Route('POST', '/os-scheduler/explain', explain, policy='nova:scheduler:explain',
          checks=server_create.CHECKS, body=BODY, query=QUERY, errors=(400, 401, 403, 404, 409, 503)),
)
