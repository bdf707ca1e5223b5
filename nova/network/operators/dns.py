"""Names that users give to addresses (os-floating-ip-dns): which there may be, and who may change them.

A public domain is an administrator's to make; all networks resolve its entries, which lead to floating addresses of who
made them. Any other domain is a project's own, and the networks of that project alone resolve it.
"""
from __future__ import annotations

import ipaddress
import re
from typing import Any, TYPE_CHECKING
import uuid

from nova import context as nova_context
from nova import exception
from nova.db.audit import log
from nova.db.networks import dns as db
from nova.db.projects import quotas as project_quotas
from nova.network import ipam
from nova.network import quotas
from nova.network.host.state import search_domain

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts

    from nova.context import RequestContext
    from nova.db.engine import Connection, Database
    from nova.db.tables.rows import DnsDomainsRow, DnsEntriesRow

LONGEST = 189                    # a domain: with a label before it a name of 253 characters
_LABEL = re.compile(r'[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?')
TYPES = {'A': 4, 'AAAA': 6}      # of entries: the version of IP


def domain_name(text: str, conf: ConfigOpts) -> str:
    """A domain in lower case.

    :raises InvalidInput: it is no name, or the one below which networks have the names of servers
    """
    name = text.lower()
    if len(name) > LONGEST or parse_address(name) is not None or not all(
            _LABEL.fullmatch(part) for part in name.split('.')):
        raise exception.InvalidInput(f"'{text[:60]}' is not a domain: labels of letters, digits and hyphens, with dots "
                                     f'between them, of {LONGEST} characters at most.')
    if name == search_domain('', conf.metadata.dhcp_domain):
        raise exception.InvalidInput(f'{name} has the names of servers, in each network its own.')
    return name


def entry_name(text: str) -> str:
    """A label in lower case.

    :raises InvalidInput: it is none
    """
    if not _LABEL.fullmatch(text.lower()):
        raise exception.InvalidInput(f"'{text[:60]}' is not a name: 1 to 63 letters, digits and hyphens, no dot.")
    return text.lower()


def parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a text is, without a zone; None: it is none."""
    try:
        return ipaddress.ip_address(text if '%' not in text else '')
    except ValueError:
        return None


def kind_of(address: str) -> str:
    """The type of an entry."""
    return next(kind for kind, version in TYPES.items() if version == ipaddress.ip_address(address).version)


def find(conn: Connection, context: RequestContext, name: str, lock: bool = False) -> DnsDomainsRow:
    """The domain of a name that the caller sees: the own one of the project before a public one.

    :raises NotFound:
    """
    found = _seen(conn, context, name.lower()[:LONGEST + 1], lock)
    if not found:
        raise exception.NotFound(f'There is no domain {name[:60]}.')
    own = [row for row in found if row['project_id'] == context.project_id]
    return (own or found)[0]


def _seen(conn: Connection, context: RequestContext, name: str | None, lock: bool) -> list[DnsDomainsRow]:
    """Domains that a project sees; administrators see all public ones."""
    project = nova_context.the_project(context.project_id)
    if not context.is_admin:
        return db.domains(conn, project, name, lock)
    return [row for row in db.domains(conn, None, name, lock) if row['project_id'] in (db.PUBLIC, project)]


def domains(api_db: Database, context: RequestContext) -> list[DnsDomainsRow]:
    """The domains that the caller sees."""
    with api_db.reader() as conn:
        return _seen(conn, context, None, False)


def put_domain(conf: ConfigOpts, api_db: Database, context: RequestContext, text: str, public: bool,
               for_project: str = '') -> DnsDomainsRow:
    """Make a domain; of a public one that is there, say whose entries it has.

    :param for_project: who alone makes entries of a public one; '': all projects
    :raises InvalidInput, QuotaExceeded:
    :raises Conflict: another project has entries in it
    """
    name, owner = domain_name(text, conf), db.PUBLIC if public else nova_context.the_project(context.project_id)

    def put(conn: Connection) -> DnsDomainsRow:
        if not public:
            project_quotas.lock(conn, owner)             # before anything is read: its requests wait for each other
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
    found: DnsDomainsRow = api_db.run(ipam.arbitrated(put))
    return found


def put_entry(conf: ConfigOpts, api_db: Database, context: RequestContext, domain: str, text: str, address: str,
              kind: str) -> tuple[DnsDomainsRow, DnsEntriesRow]:
    """Give a name to an address, or another address to a name.

    :param kind: one of TYPES
    :raises InvalidInput: the name or the address is none, or the address is of another type
    :raises NotFound: no such domain, or no such floating address of the project
    :raises Conflict: another project has the name
    :raises QuotaExceeded:
    """
    name, project = entry_name(text), nova_context.the_project(context.project_id)
    given = parse_address(address)
    if given is None:
        raise exception.InvalidInput(f"'{address[:60]}' is not an IP address.")
    if given.version != TYPES[kind]:
        raise exception.InvalidInput(f'An entry of type {kind} leads to an address of IPv{TYPES[kind]}.')

    def put(conn: Connection) -> tuple[DnsDomainsRow, DnsEntriesRow]:
        project_quotas.lock(conn, project)
        found = find(conn, context, domain, lock=True)
        public = found['project_id'] == db.PUBLIC
        if public and found['for_project'] not in ('', project):
            raise exception.Conflict(f'{found["name"]} has entries of another project alone.')
        if public and not db.is_floating(conn, str(given), project):
            raise exception.NotFound(f'The project has no floating address {given}.')
        known = db.entries(conn, found['id'], name=name)
        if known and known[0]['project_id'] != project:
            raise exception.Conflict(f'The name {name}.{found["name"]} is taken.')
        if not known:
            quotas.check(conn, conf, 'dns_entry', project)
        row: DnsEntriesRow = {'domain_id': found['id'], 'name': name, 'project_id': project, 'address': str(given)}
        db.put_entry(conn, row)
        return found, row
    answer: tuple[DnsDomainsRow, DnsEntriesRow] = api_db.run(ipam.arbitrated(put))
    return answer


def entries(conn: Connection, context: RequestContext, domain: str, **values: str) -> tuple[DnsDomainsRow, list[Any]]:
    """(a domain, those of its entries with these values that the caller sees: the project's, administrators all).

    :raises NotFound: no such domain
    """
    found = find(conn, context, domain)
    return found, [row for row in db.entries(conn, found['id'], **values)
                   if context.is_admin or row['project_id'] == context.project_id]


def delete_entry(api_db: Database, context: RequestContext, domain: str, name: str) -> None:
    """
    :raises NotFound: no such domain, or no such entry that the caller sees
    """
    def drop(conn: Connection) -> None:
        found, rows = entries(conn, context, domain, name=name.lower()[:64])
        if not rows:
            raise exception.NotFound(f'There is no entry {name[:63]} in {found["name"]}.')
        log.belongs_to(rows[0]['project_id'])
        db.remove_entry(conn, found['id'], rows[0]['name'])
    api_db.run(drop)
