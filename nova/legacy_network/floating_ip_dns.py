"""os-floating-ip-dns: DNS domains, and the DNS entries that projects create for addresses."""

from nova import exception
from nova.api.projects import known
from nova.api.proxies import floating_ips
from nova.api.request import Document
from nova.api.request import Request
from nova.api.request import Row
from nova.db.engine import Connection
from nova.db.networks import dns as db
from nova.legacy_network.operations import Operation
from nova.network.operators import dns
from nova.web import params

PUBLIC_RULE = 'nova:floating-ip-dns:public'
_SCOPES = ('public', 'private')
_DOMAIN = params.document(
    'domain_entry', params.Param('scope', {'type': 'string', 'enum': list(_SCOPES)}, required=True),
    *(params.Param(name, params.nullable(params.string(1, 255))) for name in ('project', 'availability_zone')))
_ENTRY = params.document(
    'dns_entry', params.Param('ip', params.string(1, 45), required=True),
    params.Param('dns_type', {'type': 'string', 'enum': list(dns.TYPES)}, required=True))


def _domain_view(row: Row) -> Document:
    public = row['project_id'] == db.PUBLIC
    return {'domain': row['name'], 'scope': 'public' if public else 'private', 'availability_zone': None,
            'project': (row['for_project'] if public else row['project_id']) or None}


def _entry_view(domain: Row, row: Row) -> Document:
    return {'domain': domain['name'], 'id': None, 'ip': row['address'], 'name': row['name'],
            'type': dns.kind_of(row['address'])}


def _index(req: Request) -> Document:
    return {'domain_entries': [_domain_view(row) for row in dns.domains(req.services.api_db, req.context)]}


def _put_domain(req: Request, id: str) -> Document:
    given = req.body['domain_entry']
    public, project = given['scope'] == 'public', given.get('project')
    if given.get('availability_zone') is not None:
        raise exception.BadRequest('availability_zone is not supported: names of servers depend on their networks, '
                                   'not on their zone, and are not added to private domains.')
    if public:
        req.authorize(PUBLIC_RULE)
        if project is not None:
            known.check(req, project)
    elif project is not None:
        raise exception.BadRequest('project is not supported: a private domain belongs to the caller\'s project.')
    row = dns.put_domain(req.services.conf, req.services.api_db, req.context, id, public, project or '')
    floating_ips.notify_hosts(req, 'name')
    return {'domain_entry': _domain_view(row)}


def _delete_domain(req: Request, id: str) -> None:
    def drop(conn: Connection) -> None:
        row = dns.find(conn, req.context, id, lock=True)
        if row['project_id'] == db.PUBLIC:
            req.authorize(PUBLIC_RULE)
        db.remove_domain(conn, row['id'])
    req.services.api_db.run(drop)
    floating_ips.notify_hosts(req, 'name')


def _put_entry(req: Request, domain_id: str, id: str) -> Document:
    given = req.body['dns_entry']
    domain, row = dns.put_entry(req.services.conf, req.services.api_db, req.context, domain_id, id, given['ip'],
                                given['dns_type'])
    floating_ips.notify_hosts(req, 'name')
    return {'dns_entry': _entry_view(domain, row)}


def _show_entry(req: Request, domain_id: str, id: str) -> Document:
    """Show an entry by name, or all entries of an address."""
    address = dns.parse_address(id)
    with req.services.api_db.reader() as conn:
        domain, rows = dns.entries(conn, req.context, domain_id, **(
            {'name': id.lower()[:64]} if address is None else {'address': str(address)}))
    if not rows:
        raise exception.NotFound(f'Entry {id[:63]} does not exist in {domain["name"]}.')
    shown = [_entry_view(domain, row) for row in rows]
    return {'dns_entry': shown[0]} if address is None else {'dns_entries': shown}


def _delete_entry(req: Request, domain_id: str, id: str) -> None:
    dns.delete_entry(req.services.api_db, req.context, domain_id, id)
    floating_ips.notify_hosts(req, 'name')


_PATH = 'os-floating-ip-dns'
_ONE, _NAME = _PATH + '/{id}', _PATH + '/{domain_id}/entries/{id}'
SERVED = {
    (_PATH, 'GET'): Operation(_index),
    (_ONE, 'PUT'): Operation(_put_domain, _DOMAIN),
    (_ONE, 'DELETE'): Operation(_delete_domain),
    (_NAME, 'GET'): Operation(_show_entry),
    (_NAME, 'PUT'): Operation(_put_entry, _ENTRY),
    (_NAME, 'DELETE'): Operation(_delete_entry),
}
