"""os-floating-ips-bulk: ranges of floating IPs, and the allocated addresses of all projects."""
from __future__ import annotations

from nova import exception
from nova.api.proxies.operations import Operation
from nova.api.request import Document
from nova.api.request import Request
from nova.network.operators import floating_ranges
from nova.network.operators import networks as operators
from nova.web.params import Object
from nova.web.params import Param
from nova.web.params import nullable
from nova.web.params import string

RULE = 'nova:floating-ips-bulk'
_RANGE = Param('ip_range', string(1, 43), required=True)
_NAME = nullable(string(1, 255, format='name'))
_CREATE = Object(Param('floating_ips_bulk_create', Object(_RANGE, Param('pool', _NAME), Param('interface', _NAME)),
                       required=True))
_DELETE = Object(_RANGE)


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
    ('os-floating-ips-bulk', 'GET'): Operation(_index, RULE),
    ('os-floating-ips-bulk', 'POST'): Operation(_create, RULE, body=_CREATE),
    ('os-floating-ips-bulk/{id}', 'GET'): Operation(_index, RULE),
    ('os-floating-ips-bulk/{id}', 'PUT'): Operation(_delete, RULE, body=_DELETE),
}
