"""GET /os-cell-mappings (an API extension): the cells of the deployment and their state."""
from nova.api import request as api_request
from nova.db.cells import rows as cell_rows
from nova.json_types import JsonDocument
from nova.web.fields import Field
from nova.web.fields import Fields
from nova.web.params import Query
from nova.web.routes import Route

RULE = 'nova:cells:index'

VIEW = Fields(
    Field('id', 'uuid', type='string format=uuid required'),
    Field('name', 'name', type='string required'),
    Field('disabled', 'disabled', type='boolean required'),
    Field('state', 'state', type='string one of up,down required'),
    Field('hosts', 'hosts', type='integer minimum=0 required'),
    Field('servers', 'servers', type='integer minimum=0 required'))


def index(req: api_request.Request) -> JsonDocument:
    """List all cells by name, without the URLs of databases and brokers, which contain passwords."""
    with req.services.api_db.reader() as conn:
        rows, counts = cell_rows.list(conn), cell_rows.counts(conn)
    _up, down = req.services.cells.read(cell_rows.answers)
    away, build = {cell.uuid for cell in down}, VIEW.builder(req)
    return {'cell_mappings': [
        build({**row, **counts[row['uuid']], 'state': 'down' if row['uuid'] in away else 'up'}) for row in rows]}


ROUTES = (
    Route('GET', '/os-cell-mappings', index, policy=RULE, query=Query(closed=1), errors=(401, 403, 503)),
)
