"""GET /servers/{id}/os-metrics (an API extension): the usage of a server over time. See ADR 0032."""
import datetime
import time

from nova import exception
from nova import utils
from nova.api import request as api_request
from nova.api.servers import lookup as server_lookup
from nova.db import engine
from nova.db.servers import counter_rings as stored_rings
from nova.json_types import JsonDocument
from nova.objects import counter_rings
from nova.web import fields
from nova.web.params import DATE_TIME
from nova.web.params import Param
from nova.web.params import Query
from nova.web.params import Type
from nova.web.routes import Route

RULE = 'nova:servers:metrics'
TOLERANCE_S = 60             # tolerance of checks of ``since``, because clocks of clients may differ

STEPS = Type({'type': 'string', 'enum': [str(step) for step in counter_rings.STEPS]}, convert=int)
WINDOW = Query(Param('since', DATE_TIME), Param('step', STEPS), closed=1, single=1)
_TOTALS = fields.Shape(('', 'object required'), *(
    (f'.{name}', 'number minimum=0 required') for name in counter_rings.totals({})))
_SERIES = fields.Shape(('', 'object required'), *(
    row for name in counter_rings.SERIES for row in ((f'.{name}', 'array required'), (f'.{name}[]', 'number|null'))))
METRICS = fields.Fields(
    fields.Field('step', 'step', type='integer required'),
    fields.Field('since', 'since', type='string format=date-time required'),
    fields.Field('totals', 'totals', type=_TOTALS),
    fields.Field('series', 'series', type=_SERIES))


def show(req: api_request.Request, server_id: str) -> JsonDocument:
    with server_lookup.cell_of(req, server_id).db.reader() as conn:
        server_lookup.find(req, conn, server_id, RULE)
        return {'metrics': METRICS.builder(req)(window(req, conn, server_id))}


def window(req: api_request.Request, conn: engine.Connection, owner: str) -> JsonDocument:
    """Return the series of a server or compute node in the window of the request.

    Without ``since``, the window is the whole period that is stored for ``step``. Without ``step``, the finest step
    with values since ``since`` is used. Without both, the window is the last hour.

    :raises BadRequest: values with this step are not kept since ``since``, or ``since`` is in the future
    """
    now, step, since = time.time(), req.query.one('step'), req.query.one('since')
    age = None if since is None else now - since.replace(tzinfo=datetime.UTC).timestamp()
    if step is None:
        step = counter_rings.FINEST if age is None else counter_rings.finest_step(age - TOLERANCE_S)
    reach = counter_rings.reach_s(step)
    if age is not None and not -TOLERANCE_S <= age <= reach + TOLERANCE_S:
        raise exception.BadRequest(
            f'since must be within the last {reach} seconds for step {step}. Steps reach back: ' + ', '.join(
                f'{each}: {counter_rings.reach_s(each)} s' for each in counter_rings.STEPS) + '.')
    begin = now - min(reach, max(0, reach if age is None else age))
    stored = stored_rings.read(conn, owner, step)
    first = datetime.datetime.fromtimestamp(begin // step * step, datetime.UTC).replace(tzinfo=None)
    return {'step': step, 'since': utils.isotime(first), 'totals': counter_rings.totals(stored),
            'series': counter_rings.series(stored, step, begin, now)}


ROUTES = (
    Route('GET', '/servers/{server_id}/os-metrics', show, policy=RULE, query=WINDOW, errors=(400, 401, 403, 404)),
)
