"""Key pairs of the caller; administrators also manage key pairs of other users."""

from nova.api import notifications
from nova.api import paging
from nova.api import request as api_request
from nova.api import shapes
from nova.db import engine
from nova.db.audit import log
from nova.db.projects import key_pairs
from nova.db.projects import quotas
from nova.db.tables.rows import KeyPairsRow
from nova.json_types import JsonDocument
from nova.objects import keypair
from nova.web import params
from nova.web import fields
from nova.web.routes import Route

_RULE = 'os_compute_api:os-keypairs:'
GENERATOR = keypair.Generator()           # one limit for all requests, because key generation uses much CPU time

SUMMARY = fields.Fields(
    fields.Field('name', 'name', type=shapes.NAME),
    fields.Field('public_key', 'public_key', type='string required'),
    fields.Field('fingerprint', 'fingerprint', type='string required'),
    fields.Field('type', 'type', since=2, type='string one of ssh,x509 required'),
)
CREATED = SUMMARY + fields.Fields(fields.Field('user_id', 'user_id', type='string required'))
VIEW = CREATED + fields.Fields(
    fields.Field('id', 'id', type='integer required'),
    fields.Field('created_at', fields.exact_moment('created_at'), type='string format=date-time required'),
    fields.Field('updated_at', lambda row, req: None, type='null required'),            # key pairs are immutable
    fields.Field('deleted', lambda row, req: False, type='boolean const=False required'),
    fields.Field('deleted_at', lambda row, req: None, type='null required'),
)


def _name(pattern: str) -> params.Type:
    spaced = params.string(1, 255, format='name_with_leading_trailing_spaces')
    return params.Type(params.string(1, 255, pattern, format='name'), convert=str.strip, relaxed=spaced)


CREATE = params.document(
    'keypair', params.Param('name', _name(r'^[_\- a-zA-Z0-9]+$'), until=91, required=True),
    params.Param('name', _name(r'^[_\-\@\. a-zA-Z0-9]+$'), since=92, required=True),
    params.Param('public_key', params.STRING, until=91),
    params.Param('public_key', params.STRING, since=92, required=True),
    params.Param('type', {'type': 'string', 'enum': ['ssh', 'x509']}, since=2),
    params.Param('user_id', params.STRING, since=10))
_OWNER = params.Param('user_id', params.STRING, since=10)
LIST = params.Query(_OWNER, params.Param('limit', params.LIMIT, since=35),
                    params.Param('marker', params.STRING, since=35), closed=75)
ONE = params.Query(_OWNER, closed=75)


def _owner(req: api_request.Request, rule: str, user_id: str | None) -> str:
    """Return the owner of the requested key pairs, after checking the caller's rights."""
    user_id = user_id or req.user_id
    req.authorize(_RULE + rule, {'project_id': req.project_id, 'user_id': user_id})
    return user_id


def index(req: api_request.Request) -> JsonDocument:
    user_id = _owner(req, 'index', req.query.one('user_id'))
    limit = paging.limit(req) if req.has('keypair_paging') else None
    with req.services.api_db.reader() as conn:
        rows = key_pairs.page(conn, user_id, marker=paging.marker(req), limit=limit and limit + 1)
    build = SUMMARY.builder(req)
    body = {'keypairs': [{'keypair': build(row)} for row in rows[:limit]]}
    more = limit is not None and len(rows) > limit
    return paging.add_links(body, req, 'os-keypairs', 'keypairs', rows[limit - 1]['name'] if more and limit else None,
                            more, None if limit is None else lambda item: item['keypair']['name'])


def show(req: api_request.Request, id: str) -> JsonDocument:
    user_id = _owner(req, 'show', req.query.one('user_id'))
    with req.services.api_db.reader() as conn:
        return {'keypair': VIEW.builder(req)(key_pairs.get(conn, user_id, id))}


def _limits(conn: engine.Connection, req: api_request.Request, user_id: str) -> dict[str, int]:
    return quotas.limits_of(conn, req.services.conf, req.project_id, user_id)


def create(req: api_request.Request) -> JsonDocument:
    given = req.body['keypair']
    user_id = _owner(req, 'create', given.get('user_id'))
    type_, public, private = given.get('type', 'ssh'), given.get('public_key'), None
    if public is None:
        with req.services.api_db.reader() as conn:        # check the quota first, because generating a key is expensive
            quotas.look_at_key_pairs(conn, _limits(conn, req, user_id), user_id)
            key_pairs.check_name(conn, user_id, given['name'])
        private, public, print_ = GENERATOR.generate(type_, user_id)
    else:
        print_ = keypair.fingerprint(public, type_)

    def run(conn: engine.Connection) -> KeyPairsRow:
        quotas.check_key_pairs(conn, _limits(conn, req, user_id), user_id)
        return key_pairs.create(conn, user_id, given['name'], type_, print_, public)
    row = req.services.api_db.run(log.naming(run, 'name'))
    notifications.send(req, 'keypair.import' if private is None else 'keypair.create', row)
    shown = CREATED.builder(req)(row)
    if private is not None:
        shown['private_key'] = private
    return {'keypair': shown}


def delete(req: api_request.Request, id: str) -> None:
    user_id = _owner(req, 'delete', req.query.one('user_id'))
    row = notifications.read(req, req.services.api_db, key_pairs.get, user_id, id)
    req.services.api_db.run(key_pairs.delete, user_id, id)
    notifications.send(req, 'keypair.delete', row)


ROUTES = (
    Route('GET', '/os-keypairs', index, checks=(_RULE + 'index',), query=LIST, errors=(400,)),
    Route('POST', '/os-keypairs', create, checks=(_RULE + 'create',), body=CREATE, status={1: 200, 2: 201},
          errors=(400, 403, 409)),
    Route('GET', '/os-keypairs/{id}', show, checks=(_RULE + 'show',), query=ONE, errors=(404,)),
    Route('DELETE', '/os-keypairs/{id}', delete, checks=(_RULE + 'delete',), query=ONE, status={1: 202, 2: 204},
          errors=(404,)),
)
