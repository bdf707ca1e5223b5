"""DNS domains and their entries."""
from collections.abc import Collection

import sqlalchemy as sa

from nova.db import statements
from nova.db.networks import revisions
from nova.db.tables import network as t
from nova.db.tables.rows import DnsDomainsRow
from nova.db.tables.rows import DnsEntriesRow

# project_id of public domains. The networks of all projects resolve their entries, even if one project creates them all
PUBLIC = ''


def domains(conn: sa.Connection, project_id: str | None, name: str | None = None,
            lock: bool = False) -> list[DnsDomainsRow]:
    """Return the domains in which a project may create entries, by name.

    The project's domain precedes a public one of the same name.

    :param project_id: None for all domains
    :param name: only the domain of this name
    :param lock: lock the rows until the transaction ends
    """
    c = t.dns_domains.c
    statement = sa.select(t.dns_domains).order_by(c.name, c.project_id.desc(), c.id)
    if project_id is not None:
        statement = statement.where(sa.or_(
            c.project_id == project_id, (c.project_id == PUBLIC) & c.for_project.in_(['', project_id])))
    if name is not None:
        statement = statement.where(c.name == name)
    return statements.dicts(conn.execute(statement.with_for_update() if lock else statement))


def insert_domain(conn: sa.Connection, row: DnsDomainsRow) -> None:
    """Insert a domain; the unique key prevents a second domain of this name and project."""
    revisions.execute(conn, sa.insert(t.dns_domains), [row])


def restrict(conn: sa.Connection, ident: str, for_project: str) -> None:
    """Allow only one project, or all projects (''), to create entries in a public domain and to see it in the API."""
    revisions.execute(conn, sa.update(t.dns_domains).where(t.dns_domains.c.id == ident).values(for_project=for_project))


def remove_domain(conn: sa.Connection, ident: str) -> None:
    """Remove a domain and its entries."""
    revisions.execute(conn, sa.delete(t.dns_entries).where(t.dns_entries.c.domain_id == ident))
    revisions.execute(conn, sa.delete(t.dns_domains).where(t.dns_domains.c.id == ident))


def entries(conn: sa.Connection, domain_id: str, **values: str) -> list[DnsEntriesRow]:
    """Return the entries of a domain with these column values, by name."""
    return statements.rows(conn, t.dns_entries, ('name',), domain_id=domain_id, **values)


def put_entry(conn: sa.Connection, row: DnsEntriesRow) -> None:
    """Insert an entry or change its address; the primary key prevents a concurrent insert of the same name."""
    c = t.dns_entries.c
    if not revisions.execute(conn, sa.update(t.dns_entries).where(
            c.domain_id == row['domain_id'], c.name == row['name']).values(**row)).rowcount:
        revisions.execute(conn, sa.insert(t.dns_entries), [row])


def remove_entry(conn: sa.Connection, domain_id: str, name: str) -> None:
    """Remove an entry."""
    c = t.dns_entries.c
    revisions.execute(conn, sa.delete(t.dns_entries).where(c.domain_id == domain_id, c.name == name))


def forget_floating(conn: sa.Connection, address: str, project_id: str) -> None:
    """Remove a project's entries in public domains for a floating address that the project has released."""
    c = t.dns_entries.c
    public = sa.select(t.dns_domains.c.id).where(t.dns_domains.c.project_id == PUBLIC)
    revisions.execute(conn, sa.delete(t.dns_entries).where(
        c.address == address, c.project_id == project_id, c.domain_id.in_(public)))


def is_floating(conn: sa.Connection, address: str, project_id: str) -> bool:
    """Tell whether an address is a floating address of a project."""
    c = t.floating_ips.c
    return conn.execute(sa.select(c.id).where(
        c.floating_ip_address == address, c.project_id == project_id).limit(1)).first() is not None


def resolved(conn: sa.Connection, projects: Collection[str]) -> list[tuple[str, str, str]]:
    """Return sorted [(project_id of the domain or PUBLIC, address, full name)] of the domains and their entries.

    Domains have the address ''. An entry of a public domain is included only while its project has the floating
    address.

    :param projects: include the domains of these projects
    """
    domain, entry, floating = t.dns_domains.c, t.dns_entries.c, t.floating_ips.c
    held = sa.exists().where(floating.floating_ip_address == entry.address, floating.project_id == entry.project_id)
    rows = conn.execute(sa.select(domain.project_id, domain.name, entry.address, entry.name).select_from(
        t.dns_domains.outerjoin(t.dns_entries, (entry.domain_id == domain.id) & sa.or_(
            domain.project_id != PUBLIC, held))).where(domain.project_id.in_([PUBLIC, *sorted(projects)]))).all()
    return sorted({*((project, '', name) for project, name, _address, _entry in rows),
                   *((project, address, f'{label}.{name}') for project, name, address, label in rows if label)})
