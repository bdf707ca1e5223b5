"""GET /os-permissions (an API extension): policy rules that deny access to the caller.

A user interface reads the denied rules once and hides their operations. The rules are evaluated for resources of the
caller's project. Each API still authorizes every request.
"""
from nova.api import request as api_request
from nova.json_types import JsonDocument
from nova.policies import targets
from nova.web import fields
from nova.web.params import Query
from nova.web.routes import Route

RULE = 'nova:permissions:index'
_NAMES = fields.Shape(('', 'array required'), ('[]', 'string'))
PERMISSION = fields.Fields(
    fields.Field('service', 'service', type='string required'),
    fields.Field('denied', 'denied', type=_NAMES))


def index(req: api_request.Request) -> JsonDocument:
    """Return the denied rules of each API that this deployment provides itself."""
    build, target = PERMISSION.builder(req), targets.owned_by(req.context.project_id, req.context.user_id)
    rows = []
    for rules in req.services.all_rules:
        denied = [rule.name for rule in rules.service.rules if not rules.allows(req.context, rule.name, target)]
        rows.append({'service': rules.service.name, 'denied': denied})
    return {'permissions': [build(row) for row in rows]}


ROUTES = (
    Route('GET', '/os-permissions', index, policy=RULE, query=Query(closed=1), errors=(401, 403)),
)
