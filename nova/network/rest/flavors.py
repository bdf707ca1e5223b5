"""Router flavors and their service profiles. All profiles belong to the only service provider.

New routers may use a flavor only if the flavor and one of its profiles are enabled.
"""
from __future__ import annotations

import uuid
from typing import Any, TYPE_CHECKING

from nova import exception
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.networks import flavors as db
from nova.db.networks import networks as db_networks
from nova.db.tables import network as t
from nova.json_types import JsonDocument
from nova.json_types import JsonObject
from nova.network.rest import faults
from nova.network.rest import rows as r
from nova.network.rest import schemas as s
from nova.web.resource import check_known
from nova.web.resource import closed
from nova.web.resource import Document

if TYPE_CHECKING:
    from nova.db.tables.rows import NetworkFlavorsRow, NetworkServiceProfilesRow
    from nova.network.rest.request import Deps
    from nova.network.rest.values import FlavorValues
    from nova.network.rest.values import ServiceProfileValues

PROVIDER, ROUTER = 'nova-network', 'L3_ROUTER_NAT'
MAX_ROWS = 100                  # maximum number of flavors, and of profiles: a list reads all rows
_IDENT = s.TypeValidator(s.IDENT)


def create(conn: Connection, deps: Deps, context: RequestContext, values: FlavorValues) -> str:
    if db.total(conn, t.flavors) >= MAX_ROWS:
        raise faults.OverQuota(resource='flavor')
    row: dict[str, Any] = {**FLAVORS.stored(values), 'id': str(uuid.uuid4()), 'profile_ids': []}
    db_networks.insert(conn, t.flavors, [row])
    return row['id']


def delete(conn: Connection, deps: Deps, context: RequestContext, row: NetworkFlavorsRow) -> None:
    FLAVORS.locked(conn, row['id'])
    for router in db_networks.many(conn, t.routers, [row['id']], 'flavor_id'):
        raise faults.FlavorInUse(flavor_id=row['id'], router_id=router['id'])
    db_networks.delete(conn, t.flavors, row['id'])


def check(conn: Connection, ident: str) -> None:
    """Check that a new router may use a flavor. The flavor stays locked until the transaction ends.

    :raises FlavorNotFound, FlavorDisabled, ServiceProfileDisabled:
    """
    row = FLAVORS.locked(conn, ident)
    if row['service_type'] != ROUTER:
        raise FLAVORS.missing(ident)
    if not row['enabled']:
        raise faults.FlavorDisabled(flavor_id=ident)
    if not any(profile['enabled'] for profile in db_networks.many(conn, t.service_profiles, row['profile_ids'])):
        raise faults.ServiceProfileDisabled(flavor_id=ident)


def add_profile(conn: Connection, deps: Deps, context: RequestContext, row: NetworkFlavorsRow,
                body: JsonObject) -> JsonDocument:
    given = r.below(body, 'service_profile')
    check_known(given, _BINDING, 'service_profile')
    ident = _IDENT('id', given.get('id'))
    PROFILES.locked(conn, ident)
    row = FLAVORS.locked(conn, row['id'])
    if ident in row['profile_ids']:
        raise faults.FlavorServiceProfileBindingExists(flavor_id=row['id'], service_profile_id=ident)
    db_networks.update(conn, t.flavors, row['id'], {'profile_ids': [*row['profile_ids'], ident]})
    return {'service_profile': {'id': ident}}


def remove_profile(conn: Connection, deps: Deps, context: RequestContext, row: NetworkFlavorsRow, body: None,
                   part: str) -> None:
    row = FLAVORS.locked(conn, row['id'])
    if part not in row['profile_ids']:
        raise faults.FlavorServiceProfileBindingNotFound(flavor_id=row['id'], service_profile_id=part[:60])
    db_networks.update(conn, t.flavors, row['id'], {'profile_ids': [
        each for each in row['profile_ids'] if each != part]})


def create_profile(conn: Connection, deps: Deps, context: RequestContext, values: ServiceProfileValues) -> str:
    if not values['driver'] and not values['metainfo']:
        raise exception.BadRequest('A service profile needs a driver or metainfo.')
    if db.total(conn, t.service_profiles) >= MAX_ROWS:
        raise faults.OverQuota(resource='service_profile')
    row: dict[str, Any] = {**PROFILES.stored(values), 'id': str(uuid.uuid4())}
    db_networks.insert(conn, t.service_profiles, [row])
    return row['id']


def delete_profile(conn: Connection, deps: Deps, context: RequestContext, row: NetworkServiceProfilesRow) -> None:
    PROFILES.locked(conn, row['id'])
    for flavor in db.every(conn):
        if row['id'] in flavor['profile_ids']:
            raise faults.ServiceProfileInUse(service_profile_id=row['id'], flavor_id=flavor['id'])
    db_networks.delete(conn, t.service_profiles, row['id'])


_ENABLED = r.column('enabled', s.FLAG, 'Whether new routers may use it.', write=r.BOTH, accepts=s.BOOLEAN, default=True)
_BINDING = {'id': s.UUID}

FLAVORS = r.Resource('flavor', 'flavors', t.flavors, (
    r.IDENT, r.NAME, r.DESCRIPTION, _ENABLED,
    r.column('service_type', s.TEXT, f'Service: {ROUTER} for routers.', write='create',
             accepts=s.one_of(ROUTER, 'FLAVORS'), required=True),
    r.Field('service_profiles', s.array(s.UUID), 'profile_ids', 'Service profiles.', listed=False),
), visible=db.visible, create=create, delete=delete, missing=lambda ident: faults.FlavorNotFound(flavor_id=ident),
    actions=(r.Action('POST', 'service_profiles', add_profile, Document({'service_profile': s.shape(**_BINDING)}),
                      closed('service_profile', service_profile=closed('id', id=s.IDENT))),
             r.Action('DELETE', 'service_profiles/{part}', remove_profile)))
PROFILES = r.Resource('service_profile', 'service_profiles', t.service_profiles, (
    r.IDENT, r.DESCRIPTION, _ENABLED,
    r.column('driver', s.TEXT, f'Service provider: empty or {PROVIDER}.', write=r.BOTH, accepts=s.one_of('', PROVIDER),
             default=''),
    r.column('metainfo', s.TEXT, 'Notes of operators.', write=r.BOTH, accepts=s.text(4096), default=''),
), at='service_profiles', visible=db.visible, create=create_profile, delete=delete_profile,
    missing=lambda ident: faults.ServiceProfileNotFound(service_profile_id=ident))
