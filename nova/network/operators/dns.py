"""User-defined DNS names of addresses (os-floating-ip-dns): validation and permissions.

Administrators create public domains. All networks resolve the entries of public domains, which refer to floating
addresses of the entry's project. A private domain belongs to a project, and only networks of the project resolve it.
"""
import ipaddress
import re
from typing import Any
import uuid

from oslo_config.cfg import ConfigOpts

from nova import context as nova_context
from nova import exception
from nova.context import RequestContext
from nova.db.audit import log
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.networks import dns as db
from nova.db.projects import quotas as project_quotas
from nova.db.tables.rows import DnsDomainsRow
from nova.db.tables.rows import DnsEntriesRow
from nova.network import ipam
from nova.network import quotas
from nova.network.host.state import search_domain

MAX_DOMAIN_LENGTH = 189  # maximum characters of a domain: with a label of 63 and a dot, a name has 253
_LABEL = re.compile(r'[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?')
TYPES = {'A': 4, 'AAAA': 6}      # {record type: IP version}


def domain_name(text: str, conf: ConfigOpts) -> str:
    """Check a domain and return it in lower case.

    :raises InvalidInput: the text is not a domain, or is the domain of server names
    """
    name = text.lower()
    if len(name) > MAX_DOMAIN_LENGTH or parse_address(name) is not None or not all(
            _LABEL.fullmatch(part) for part in name.split('.')):
        raise exception.InvalidInput(f"'{text[:60]}' is not a domain: labels of letters, digits and hyphens, with dots "
                                     f'between them, of at most {MAX_DOMAIN_LENGTH} characters.')
    if name == search_domain('', conf.metadata.dhcp_domain):
        raise exception.InvalidInput(f'{name} is reserved for the names of servers.')
    return name


def entry_name(text: str) -> str:
    """Check a label and return it in lower case.

    :raises InvalidInput: not a label
    """
    if not _LABEL.fullmatch(text.lower()):
        raise exception.InvalidInput(f"'{text[:60]}' is not a name: 1 to 63 letters, digits and hyphens, no dot.")
    return text.lower()


def parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an address without an IPv6 zone ID; return None if it is invalid."""
    try:
        return ipaddress.ip_address(text if '%' not in text else '')
    except ValueError:
        return None


def kind_of(address: str) -> str:
    """Return the record type for an address."""
    return next(kind for kind, version in TYPES.items() if version == ipaddress.ip_address(address).version)


def find(conn: Connection, context: RequestContext, name: str, lock: bool = False) -> DnsDomainsRow:
    """Return the visible domain with a name; a domain of the project takes precedence over a public domain.

    :raises NotFound:
    """
    found = _seen(conn, context, name.lower()[:MAX_DOMAIN_LENGTH + 1], lock)
    if not found:
        raise exception.NotFound(f'Domain {name[:60]} could not be found.')
    own = [row for row in found if row['project_id'] == context.project_id]
    return (own or found)[0]


def _seen(conn: Connection, context: RequestContext, name: str | None, lock: bool) -> list[DnsDomainsRow]:
    """Return the domains visible to a project; administrators see all public domains."""
    project = nova_context.the_project(context.project_id)
    if not context.is_admin:
        return db.domains(conn, project, name, lock)
    return [row for row in db.domains(conn, None, name, lock) if row['project_id'] in (db.PUBLIC, project)]


def domains(api_db: Database, context: RequestContext) -> list[DnsDomainsRow]:
    """Return the domains visible to the caller."""
    with api_db.reader() as conn:
        return _seen(conn, context, None, False)


def put_domain(conf: ConfigOpts, api_db: Database, context: RequestContext, text: str, public: bool,
               for_project: str = '') -> DnsDomainsRow:
    """Create a domain, or change the project of an existing public domain.

    :param for_project: the only project that may create entries of a public domain; '': all projects
    :raises InvalidInput, QuotaExceeded:
    :raises Conflict: another project has entries in the domain
    """
    name, owner = domain_name(text, conf), db.PUBLIC if public else nova_context.the_project(context.project_id)

    def put(conn: Connection) -> DnsDomainsRow:
        if not public:
            project_quotas.lock(conn, owner)             # serializes the project's requests; must precede all reads
        known = [row for row in db.domains(conn, None, name, True) if row['project_id'] == owner]
        if known:
            if for_project and any(row['project_id'] != for_project for row in db.entries(conn, known[0]['id'])):
                raise exception.Conflict(f'Other projects have entries in {name}.')
            db.restrict(conn, known[0]['id'], for_project)
            return {**known[0], 'for_project': for_project}
        if not public:
            quotas.check(conn, conf, 'dns_domain', owner)
        made: DnsDomainsRow = {'id': str(uuid.uuid4()), 'name': name, 'project_id': owner, 'for_project': for_project}
        db.insert_domain(conn, made)
        return made
    found: DnsDomainsRow = api_db.run(ipam.retry_on_duplicate(put))
    return found


def put_entry(conf: ConfigOpts, api_db: Database, context: RequestContext, domain: str, text: str, address: str,
              kind: str) -> tuple[DnsDomainsRow, DnsEntriesRow]:
    """Create an entry or change its address.

    :param kind: one of TYPES
    :raises InvalidInput: invalid name or address, or an address of another type
    :raises NotFound: no such domain, or no such floating address of the project
    :raises Conflict: another project has an entry with the name
    :raises QuotaExceeded:
    """
    name, project = entry_name(text), nova_context.the_project(context.project_id)
    given = parse_address(address)
    if given is None:
        raise exception.InvalidInput(f"'{address[:60]}' is not an IP address.")
    if given.version != TYPES[kind]:
        raise exception.InvalidInput(f'An entry of type {kind} needs an IPv{TYPES[kind]} address.')

    def put(conn: Connection) -> tuple[DnsDomainsRow, DnsEntriesRow]:
        project_quotas.lock(conn, project)
        found = find(conn, context, domain, lock=True)
        public = found['project_id'] == db.PUBLIC
        if public and found['for_project'] not in ('', project):
            raise exception.Conflict(f'{found["name"]} is restricted to another project.')
        if public and not db.is_floating(conn, str(given), project):
            raise exception.NotFound(f'Floating address {given} of the project could not be found.')
        known = db.entries(conn, found['id'], name=name)
        if known and known[0]['project_id'] != project:
            raise exception.Conflict(f'The name {name}.{found["name"]} is taken.')
        if not known:
            quotas.check(conn, conf, 'dns_entry', project)
        row: DnsEntriesRow = {'domain_id': found['id'], 'name': name, 'project_id': project, 'address': str(given)}
        db.put_entry(conn, row)
        return found, row
    answer: tuple[DnsDomainsRow, DnsEntriesRow] = api_db.run(ipam.retry_on_duplicate(put))
    return answer


def entries(conn: Connection, context: RequestContext, domain: str, **values: str) -> tuple[DnsDomainsRow, list[Any]]:
    """Return (domain, its visible entries with the given column values). Administrators see entries of all projects.

    :raises NotFound: no such domain
    """
    found = find(conn, context, domain)
    return found, [row for row in db.entries(conn, found['id'], **values)
                   if context.is_admin or row['project_id'] == context.project_id]


def delete_entry(api_db: Database, context: RequestContext, domain: str, name: str) -> None:
    """Delete an entry; raises NotFound (no such domain or visible entry)."""
    def drop(conn: Connection) -> None:
        found, rows = entries(conn, context, domain, name=name.lower()[:64])
        if not rows:
            raise exception.NotFound(f'Entry {name[:63]} in {found["name"]} could not be found.')
        log.belongs_to(rows[0]['project_id'])
        db.remove_entry(conn, found['id'], rows[0]['name'])
    api_db.run(drop)
