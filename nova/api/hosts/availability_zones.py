"""Availability zones; administrators also see their hosts and services."""
from collections.abc import Iterable
from typing import Any

from nova import exception
from nova import utils
from nova.api import request as api_request
from nova.api.hosts import services as services_api
from nova.db.services import services
from nova.json_types import JsonDocument
from nova.web.params import Query
from nova.web.routes import Route

_RULE = 'os_compute_api:os-availability-zone:'


def _zones(req: api_request.Request) -> dict[str, list[Any]]:
    """Return {zone: [service rows]}: compute services in their zones, other services in the internal zone.

    Services of cells that are down are missing.
    """
    internal = req.services.conf.internal_service_availability_zone
    zones: dict[str, list[Any]] = {}
    found, _down = req.services.cells.read(services.list)
    if not found:
        raise exception.ServiceUnavailable(service='database')
    for _cell, rows in found:
        for row in rows:
            zone = row['availability_zone'] if row['binary'] == 'nova-compute' else internal
            zones.setdefault(zone, []).append(row)
    return zones


def _entry(zone: str, available: bool, hosts: api_request.Document | None = None) -> JsonDocument:
    return {'zoneName': zone, 'zoneState': {'available': available}, 'hosts': hosts}


def _available(rows: Iterable[api_request.Row]) -> bool:
    """Return True if a service of the zone is enabled."""
    return any(not row['disabled'] for row in rows)


def index(req: api_request.Request) -> JsonDocument:
    internal = req.services.conf.internal_service_availability_zone
    zones = _zones(req)
    return {'availabilityZoneInfo': [_entry(zone, _available(zones[zone]))
                                     for zone in sorted(zones) if zone != internal]}


def detail(req: api_request.Request) -> JsonDocument:
    now, down_time = utils.utcnow(), req.services.conf.service_down_time
    found = []
    for zone, rows in sorted(_zones(req).items()):
        hosts: dict[str, api_request.Document] = {}
        for row in rows:
            hosts.setdefault(row['host'], {})[row['binary']] = {
                'available': services.is_up(row, down_time, now), 'active': not row['disabled'],
                'updated_at': services_api.seen(row, req)}
        available = _available(rows)
        found.append(_entry(zone, available, hosts if available else None))
    return {'availabilityZoneInfo': found}


ROUTES = (
    Route('GET', '/os-availability-zone', index, policy=_RULE + 'list', query=Query(closed=102)),
    Route('GET', '/os-availability-zone/detail', detail, policy=_RULE + 'detail', query=Query(closed=102)),
)
