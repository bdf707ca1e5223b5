"""GET /os-metrics (an API extension): metrics of the process that handles the request."""
import socket

from nova import utils
from nova.api import request as api_request
from nova.json_types import JsonDocument
from nova.runtime import metrics
from nova.web import fields
from nova.web.params import Query
from nova.web.routes import Route

RULE = 'nova:metrics:show'
_SAMPLES = fields.Shape(
    ('', 'array required'),
    ('[]', 'object'),
    ('[].name', 'string required'),
    ('[].labels', 'object required'),
    ('[].labels.<^.*$>', 'string'),
    ('[].value', 'number required'),
)
METRIC = fields.Fields(
    fields.Field('name', 'name', type='string required'),
    fields.Field('kind', 'kind', type='string one of counter,gauge,histogram required'),
    fields.Field('text', 'text', type='string required'),
    fields.Field('samples', 'samples', type=_SAMPLES))


def show(req: api_request.Request) -> JsonDocument:
    """Return current values; histograms have only count and sum (buckets are in /metrics)."""
    build = METRIC.builder(req)
    return {'host': req.services.conf.host or socket.gethostname(), 'at': utils.isotime(utils.utcnow()),
            'metrics': [build(row) for row in metrics.values()]}


ROUTES = (
    Route('GET', '/os-metrics', show, policy=RULE, query=Query(closed=1), errors=(401, 403)),
)
