"""Subnet pools: subnets of a pool do not overlap, even if they belong to different networks.

The pool's row is locked during an allocation, so that concurrent requests get different ranges.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import ipaddress
from typing import Any, TYPE_CHECKING
import uuid

from nova import exception
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.networks import address_scopes as db_scopes
from nova.db.networks import networks as db_networks
from nova.db.networks import subnet_pools as db
from nova.db.tables import network as t
from nova.json_types import JsonDocument
from nova.json_types import JsonObject
from nova.network import ranges
from nova.network.rest import address_scopes
from nova.network.rest import faults
from nova.network.rest import quotas
from nova.network.rest import rows as r
from nova.network.rest import schemas as s
from nova.web.resource import closed
from nova.web.resource import Document

if TYPE_CHECKING:
    from nova.db.tables.rows import SubnetPoolsRow
    from nova.network.rest.request import Deps
    from nova.network.rest.values import SubnetpoolValues
    from nova.network.rest.values import SubnetValues

LENGTHS = ('min_prefixlen', 'default_prefixlen', 'max_prefixlen')
SHORTEST = {4: 8, 6: 64}            # default of min_prefixlen (Networking API reference)
COUNTED_AS = {4: 32, 6: 64}         # default_quota counts ranges of this prefix length
PREFIX_DELEGATION = 'prefix_delegation'     # the API's id for prefix delegation


def create(conn: Connection, deps: Deps, context: RequestContext, values: SubnetpoolValues) -> str:
    project = r.new_owner(context, values)
    prefixes = _prefixes(values['prefixes'])
    version = prefixes[0].version
    row = {**POOLS.stored(values), 'id': str(uuid.uuid4()), 'project_id': project, 'ip_version': version,
           'prefixes': [str(each) for each in prefixes], 'default_quota': values['default_quota'],
           'default_ip_version': version if values['is_default'] else None,
           'address_scope_id': values['address_scope_id'], **_lengths(version, values)}
    quotas.check(conn, deps.conf, 'subnetpool', project)
    _check_default(conn, row)
    if row['address_scope_id'] is not None:
        address_scopes.check_pool(conn, context, row['address_scope_id'], row)
    db_networks.insert(conn, t.subnet_pools, [row])
    return row['id']


def update(conn: Connection, deps: Deps, context: RequestContext, row: SubnetPoolsRow,
           values: SubnetpoolValues) -> None:
    row = POOLS.locked(conn, row['id'])
    stored = POOLS.stored(values)
    stored |= _lengths(row['ip_version'], {**row, **{
        name: value for name, value in values.items() if name in LENGTHS}})
    if 'default_quota' in values:
        stored['default_quota'] = values['default_quota']
    if values.get('is_default') is not None:
        stored['default_ip_version'] = row['ip_version'] if values['is_default'] else None
        _check_default(conn, {**row, **stored})
    if values.get('prefixes') is not None:
        stored['prefixes'] = [str(each) for each in _fitting(row, _prefixes(values['prefixes']), _of(row))]
    if 'address_scope_id' in values and values['address_scope_id'] != row['address_scope_id']:
        stored['address_scope_id'] = values['address_scope_id']
        if db_scopes.shares_network(conn, row['id'], row['ip_version']):
            raise faults.IllegalSubnetPoolUpdate(
                subnetpool_id=row['id'], reason='a network has subnets of it and other subnets of its IP version.')
    _check_scope(conn, context, row, {**row, **stored})
    db_networks.update(conn, t.subnet_pools, row['id'], stored)


def _check_scope(conn: Connection, context: RequestContext, row: SubnetPoolsRow, changed: Mapping[str, Any]) -> None:
    """Check a changed pool against its scope; an unchanged scope may be invisible to the caller."""
    ident = changed['address_scope_id']
    if ident is not None and ident != row['address_scope_id']:
        address_scopes.check_pool(conn, context, ident, changed)
    elif ident is not None and changed['prefixes'] != row['prefixes']:
        address_scopes.check_prefixes(conn, ident, row['id'], _of(changed))


def delete(conn: Connection, deps: Deps, context: RequestContext, row: SubnetPoolsRow) -> None:
    POOLS.locked(conn, row['id'])
    if db.pieces(conn, row['id']):
        raise faults.SubnetPoolInUse(subnetpool_id=row['id'])
    db_networks.end_shares(conn, row['id'])
    db_networks.delete(conn, t.subnet_pools, row['id'])


def add_prefixes(conn: Connection, deps: Deps, context: RequestContext, row: SubnetPoolsRow,
                 body: JsonObject) -> JsonDocument:
    row = POOLS.locked(conn, row['id'])
    return _store(conn, context, row, _prefixes([*row['prefixes'], *_body_prefixes(body)]))


def remove_prefixes(conn: Connection, deps: Deps, context: RequestContext, row: SubnetPoolsRow,
                    body: JsonObject) -> JsonDocument:
    row = POOLS.locked(conn, row['id'])
    left: list[ranges.Cidr] = _of(row)
    for gone in _prefixes(_body_prefixes(body)):
        if not ranges.covers(_of(row), gone):
            raise exception.InvalidInput(reason=f'prefixes: {gone} is not in the pool.')
        left = [piece for each in left for piece in ranges.without(each, gone)]
    return _store(conn, context, row, left)


def _store(conn: Connection, context: RequestContext, row: SubnetPoolsRow,
           prefixes: list[ranges.Cidr]) -> JsonDocument:
    kept = [ipaddress.ip_network(cidr) for _project, cidr in db.pieces(conn, row['id'])]
    stored = [str(each) for each in _fitting(row, ranges.merged(prefixes), kept)]
    _check_scope(conn, context, row, {**row, 'prefixes': stored})
    db_networks.update(conn, t.subnet_pools, row['id'], {'prefixes': stored})
    return {'prefixes': stored}


def _body_prefixes(body: JsonObject) -> list[str]:
    given: list[str] = _PREFIXES('prefixes', body.get('prefixes'))
    if not given or body.keys() != {'prefixes'}:
        raise exception.BadRequest("A body with only 'prefixes', a list of at least one range, is expected.")
    return given


# ---- checks ----------------------------------------------------------------------

def _of(row: Mapping[str, Any]) -> list[ranges.Cidr]:
    return [ipaddress.ip_network(each) for each in row['prefixes']]


def _prefixes(given: Sequence[str]) -> list[ranges.Cidr]:
    """Check the ranges of a pool, and merge adjacent or overlapping ranges."""
    found = [ipaddress.ip_network(each) for each in given]
    if not found:
        raise exception.InvalidInput(reason='prefixes: a pool needs at least one range.')
    if len({each.version for each in found}) > 1:
        raise exception.InvalidInput(reason='prefixes: all ranges of a pool must have the same IP version.')
    bad = [each for each in found if each.is_multicast or each.is_loopback or each.is_link_local or
           each.is_unspecified or each.network_address.is_unspecified]
    if bad:
        raise exception.InvalidInput(reason=f'prefixes: {bad[0]} cannot hold guests.')
    return ranges.merged(found)


def _fitting(row: SubnetPoolsRow, prefixes: list[ranges.Cidr], kept: Iterable[ranges.Cidr]) -> list[ranges.Cidr]:
    """Check the pool's new prefixes: they must cover the ranges ``kept`` (present prefixes, or allocated subnets).

    :raises InvalidInput:
    """
    if not prefixes or len(prefixes) > s.MAX_ITEMS:
        raise exception.InvalidInput(reason=f'prefixes: a pool has 1 to {s.MAX_ITEMS} ranges.')
    if prefixes[0].version != row['ip_version']:
        raise exception.InvalidInput(reason=f"prefixes: the pool is for IPv{row['ip_version']}.")
    for each in kept:
        if not ranges.covers(prefixes, each):
            raise exception.InvalidInput(reason=f'prefixes: {each} is in use or in the pool, and cannot be removed.')
    return prefixes


def _lengths(version: int, values: Mapping[str, Any]) -> dict[str, int]:
    """Return the minimum, default and maximum prefix length of allocations; None selects the API's default."""
    longest = 32 if version == 4 else 128
    low = values['min_prefixlen'] if values['min_prefixlen'] is not None else SHORTEST[version]
    high = values['max_prefixlen'] if values['max_prefixlen'] is not None else longest
    usual = values['default_prefixlen'] if values['default_prefixlen'] is not None else low
    if not low <= usual <= high <= longest:
        raise exception.InvalidInput(reason='min_prefixlen <= default_prefixlen <= max_prefixlen must hold, with at '
                                            f'most {longest}: not {low}, {usual}, {high}.')
    return {'min_prefixlen': low, 'default_prefixlen': usual, 'max_prefixlen': high}


def _check_default(conn: Connection, row: Mapping[str, Any]) -> None:
    """Reject a second default pool. If two concurrent requests set a default pool, the unique key rejects one."""
    if row['default_ip_version'] is not None:
        known = db_networks.many(conn, t.subnet_pools, [row['default_ip_version']], 'default_ip_version')
        if any(each['id'] != row['id'] for each in known):
            raise exception.InvalidInput(reason=f"is_default: IPv{row['ip_version']} already has a default pool.")


# ---- allocation ------------------------------------------------------------------

def allocate(conn: Connection, context: RequestContext, values: SubnetValues, project: str,
             others: Sequence[str]) -> tuple[str | None, str]:
    """Return (pool id or None, CIDR) for a new subnet.

    :param project: project of the network
    :param others: ranges (CIDR) outside the pool that the subnet must not overlap
    :raises InvalidInput, SubnetPoolNotFound, SubnetAllocationError, SubnetPoolQuotaExceeded:
    """
    ident, length = _chosen(conn, context, values), values['prefixlen']
    if ident is None:
        if values['cidr'] is None or length is not None:
            raise exception.InvalidInput(reason='A subnet needs a cidr, or a subnet pool with an optional prefixlen.')
        return None, values['cidr']
    pool = db.locked(conn, context, ident)
    if pool is None:
        raise POOLS.missing(ident)
    if pool['ip_version'] != values['ip_version']:
        raise exception.InvalidInput(reason=f"ip_version does not match the pool: it is for IPv{pool['ip_version']}.")
    pieces = db.pieces(conn, pool['id'])
    taken = [ipaddress.ip_network(each) for _owner, each in pieces]
    found = (_allocate_requested(pool, values, taken) if values['cidr'] is not None
             else _allocate_any(pool, values, taken, others))
    own = [ipaddress.ip_network(each) for owner, each in pieces if owner == project]
    if pool['default_quota'] is not None and _size([*own, found]) > pool['default_quota']:
        raise faults.SubnetPoolQuotaExceeded(subnetpool_id=pool['id'])
    return pool['id'], str(found)


def _chosen(conn: Connection, context: RequestContext, values: SubnetValues) -> str | None:
    ident = values['subnetpool_id']
    if ident == PREFIX_DELEGATION:
        raise exception.InvalidInput(reason='subnetpool_id: prefix delegation is not supported. Give a pool or a cidr.')
    if not values['use_default_subnetpool']:
        return ident
    if ident is not None:
        raise exception.InvalidInput(reason='subnetpool_id and use_default_subnetpool exclude each other.')
    ident = db.default_id(conn, context, values['ip_version'])
    if ident is None:
        raise exception.InvalidInput(reason=f"use_default_subnetpool: IPv{values['ip_version']} has no default pool.")
    return ident


def _allocate_any(pool: SubnetPoolsRow, values: SubnetValues, taken: list[ranges.Cidr],
                  others: Sequence[str]) -> ranges.Cidr:
    if values['allocation_pools'] or values['gateway_ip'] not in (s.UNSET, None):
        raise exception.InvalidInput(reason='gateway_ip and allocation_pools need a known range: give a cidr of the '
                                            'pool with them.')
    length = pool['default_prefixlen'] if values['prefixlen'] is None else values['prefixlen']
    _check_length(pool, length)
    found = ranges.find_free(_of(pool), [*taken, *map(ipaddress.ip_network, others)], length)
    if found is None:
        raise faults.SubnetAllocationError(reason=f'the pool has no free range of /{length}.')
    return found


def _allocate_requested(pool: SubnetPoolsRow, values: SubnetValues, taken: list[ranges.Cidr]) -> ranges.Cidr:
    if values['prefixlen'] is not None:
        raise exception.InvalidInput(reason='cidr and prefixlen exclude each other.')
    found = ipaddress.ip_network(_CIDR('cidr', values['cidr']))
    _check_length(pool, found.prefixlen)
    if not ranges.covers(_of(pool), found):
        raise faults.SubnetAllocationError(reason=f'{found} is not in the pool.')
    if any(found.overlaps(each) for each in taken):
        raise faults.SubnetAllocationError(reason=f'{found} is not free in the pool.')
    return found


def _check_length(pool: SubnetPoolsRow, length: int) -> None:
    if not pool['min_prefixlen'] <= length <= pool['max_prefixlen']:
        raise exception.InvalidInput(reason=f"Subnets of the pool have prefix lengths from {pool['min_prefixlen']} to "
                                            f"{pool['max_prefixlen']}, not {length}.")


def _size(pieces: list[ranges.Cidr]) -> int:
    """Return the size of ranges in units of default_quota; a range smaller than a unit counts as one unit."""
    return sum(1 << max(0, COUNTED_AS[each.version] - each.prefixlen) for each in pieces)


_CIDR, _PREFIXES = s.TypeValidator(s.NETWORK), s.TypeValidator(s.items(s.NETWORK))
_LENGTH = s.nullable(s.integer(0, 128))
_BODY = closed('prefixes', prefixes=s.items(s.NETWORK))
_CHANGED = Document({'prefixes': s.TEXTS})

POOLS = r.Resource('subnetpool', 'subnetpools', t.subnet_pools, (
    *r.NAMED,
    dataclasses.replace(r.SHARED, write='create'),
    r.Field('is_default', s.FLAG, lambda row, context: row['default_ip_version'] is not None,
            'Whether it is the default pool of its IP version.', columns=('default_ip_version',), where=db.is_default,
            write=r.BOTH, accepts=s.BOOLEAN, default=False, guarded=True),
    r.column('ip_version', s.NUMBER, 'IP version.'),
    r.column('prefixes', s.TEXTS, 'Ranges.', write=r.BOTH, accepts=s.items(s.NETWORK), required=True),
    r.column('default_quota', s.NUMBER_OR_NULL, 'Maximum number of addresses of a project.', write=r.BOTH,
             accepts=s.nullable(s.integer(0, 2 ** 31 - 1))),
    *(r.column(name, s.NUMBER, f'The {name.partition("_")[0]} prefix length of subnets.', write=r.BOTH,
               accepts=_LENGTH) for name in LENGTHS),
    r.column('address_scope_id', s.UUID_OR_NULL, 'Address scope.', write=r.BOTH, accepts=s.nullable(s.IDENT)),
), visible=db.visible, create=create, update=update, delete=delete,
    missing=lambda ident: faults.SubnetPoolNotFound(subnetpool_id=ident),
    actions=(r.Action('PUT', 'add_prefixes', add_prefixes, _CHANGED, _BODY),
             r.Action('PUT', 'remove_prefixes', remove_prefixes, _CHANGED, _BODY)))
