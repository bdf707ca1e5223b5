"""os-floating-ips-bulk: ranges of floating IPs, and the allocated addresses of all projects."""
from nova import exception
from nova.api.request import Document
from nova.api.request import Request
from nova.legacy_network.operations import Operation
from nova.network.operators import floating_ranges
from nova.network.operators import networks as operators
from nova.web import params

_RANGE = params.Param('ip_range', params.string(1, 43), required=True)
_NAME = params.nullable(params.string(1, 255, format='name'))
_CREATE = params.document('floating_ips_bulk_create', _RANGE,
                          params.Param('pool', _NAME), params.Param('interface', _NAME))
_DELETE = params.Object(_RANGE)


def _index(req: Request, id: str | None = None) -> Document:
    return {'floating_ip_info': operators.floating(req.services.api_db, id)}


def _create(req: Request) -> Document:
    given = req.body['floating_ips_bulk_create']
    pool = given.get('pool') or floating_ranges.POOL
    interface = floating_ranges.create(req.services.conf, req.services.api_db, given['ip_range'], pool,
                                       given.get('interface'))
    return {'floating_ips_bulk_create': {'ip_range': given['ip_range'], 'pool': pool, 'interface': interface}}


def _delete(req: Request, id: str) -> Document:
    if id != 'delete':
        raise exception.NotFound()
    floating_ranges.delete(req.services.api_db, req.body['ip_range'])
    return {'floating_ips_bulk_delete': req.body['ip_range']}


SERVED = {
    ('os-floating-ips-bulk', 'GET'): Operation(_index),
    ('os-floating-ips-bulk', 'POST'): Operation(_create, _CREATE),
    ('os-floating-ips-bulk/{id}', 'GET'): Operation(_index),
    ('os-floating-ips-bulk/{id}', 'PUT'): Operation(_delete, _DELETE),
}
