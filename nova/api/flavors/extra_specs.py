"""Extra specs of flavors."""
import re
from collections.abc import Callable

from nova import context as nova_context
from nova import exception
from nova.api import notifications
from nova.api import request as api_request
from nova.api.flavors import flavors as flavors_api
from nova.db.projects import flavors
from nova.hardware import guest_options
from nova.json_types import JsonDocument
from nova.web import params
from nova.web import sizes
from nova.web.routes import Route

_RULE = 'os_compute_api:os-flavor-extra-specs:'
_VALUE = params.Type({'type': ['string', 'number'], 'maxLength': 255})
_SPECS = params.Object(params.Param(None, _VALUE, pattern=params.METADATA_KEY))
CREATE = params.Object(params.Param('extra_specs', _SPECS, required=True))
_KEY = re.compile(params.METADATA_KEY)


def _texts(req: api_request.Request, specs: dict[str, str]) -> dict[str, str]:
    specs = {key: value if isinstance(value, str) else str(value) for key, value in specs.items()}
    if req.has('extra_spec_validation'):
        guest_options.check_specs(specs)
    return specs


def index(req: api_request.Request, flavor_id: str) -> JsonDocument:
    with req.services.api_db.reader() as conn:
        return {'extra_specs': flavors_api.find(req, conn, flavor_id)['extra_specs']}


def show(req: api_request.Request, flavor_id: str, id: str) -> JsonDocument:
    with req.services.api_db.reader() as conn:
        specs = flavors_api.find(req, conn, flavor_id)['extra_specs']
    if id not in specs:
        raise exception.FlavorExtraSpecsNotFound(flavor_id=flavor_id, key=id)
    return {id: specs[id]}


def create(req: api_request.Request, flavor_id: str) -> JsonDocument:
    given = _texts(req, req.body['extra_specs'])
    _change(req, flavor_id, lambda specs: {**specs, **given})
    return {'extra_specs': given}


def update(req: api_request.Request, flavor_id: str, id: str) -> JsonDocument:
    if not _KEY.match(id) or list(req.body) != [id]:
        raise exception.BadRequest('Request body and URI mismatch')
    given = _texts(req, req.body)
    _change(req, flavor_id, lambda specs: {**specs, **given})
    return given


def delete(req: api_request.Request, flavor_id: str, id: str) -> None:
    def without(specs: dict[str, str]) -> dict[str, str]:
        if id not in specs:
            raise exception.FlavorExtraSpecsNotFound(flavor_id=flavor_id, key=id)
        del specs[id]
        return specs
    _change(req, flavor_id, without)


def _change(req: api_request.Request, flavor_id: str, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
    def bounded(specs: dict[str, str]) -> dict[str, str]:
        before = dict(specs)
        changed = change(specs)
        sizes.check(changed, sizes.SPECS, 'Extra specs of a flavor', before)
        return changed
    req.services.api_db.run(flavors.change_extra_specs, flavor_id, bounded)
    notifications.send(req, 'flavor.update', notifications.read(req, req.services.api_db, flavors.get, flavor_id,
                                                    nova_context.ALL_PROJECTS))


_PATH = '/flavors/{flavor_id}/os-extra_specs'
ROUTES = (
    Route('GET', _PATH, index, policy=_RULE + 'index', query=params.Query(closed=102), errors=(404,)),
    Route('POST', _PATH, create, policy=_RULE + 'create', body=CREATE, errors=(400, 404, 409)),
    Route('GET', _PATH + '/{id}', show, policy=_RULE + 'show', query=params.Query(closed=102), errors=(404,)),
    Route('PUT', _PATH + '/{id}', update, policy=_RULE + 'update', body=_SPECS, errors=(400, 404, 409)),
    Route('DELETE', _PATH + '/{id}', delete, policy=_RULE + 'delete', errors=(404,)),
)
