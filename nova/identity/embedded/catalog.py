"""The service catalog of an all-in-one."""
import uuid
from collections.abc import Callable, Iterable
from typing import TypedDict

from oslo_config import cfg

Service = tuple[str, str, str]               # type, name, path or URL


class Endpoint(TypedDict):
    """An endpoint in a catalog."""

    id: str
    interface: str
    region: str | None
    region_id: str | None
    url: str


class CatalogService(TypedDict):
    """Service with its endpoints in a catalog."""

    id: str
    type: str
    name: str
    endpoints: list[Endpoint]


Catalog = list[CatalogService]

REGION = 'RegionOne'
INTERFACES = ('public', 'internal', 'admin')

# (type, name, path below the base URL). The paths of compute and block storage contain the version.
SERVICES = (
    ('identity', 'keystone', '/identity'),
    ('compute', 'nova', '/compute/v2.1'),
    ('image', 'glance', '/image'),
    ('network', 'neutron', '/network'),
    ('block-storage', 'cinder', '/volume/v3'),
    ('volumev3', 'cinderv3', '/volume/v3'),
    ('key-manager', 'barbican', '/key-manager'),
    ('s3', 'nova-objectstore', '/objectstore'),
)

_NAMESPACE = uuid.UUID('6f0b7a52-5f2c-4f2e-9d3c-0f6a4be1d9c1')


def stable_id(*parts: str) -> str:
    """Derive a UUID from the parts: equal parts give equal UUIDs in all processes."""
    return uuid.uuid5(_NAMESPACE, '/'.join(parts)).hex


def build(urls: Iterable[Service], region: str = REGION) -> Catalog:
    """Build a catalog in the format of the identity API.

    :param urls: rows of (type, name, URL)
    """
    return [{
        'id': stable_id(kind), 'type': kind, 'name': name,
        'endpoints': [{'id': stable_id(kind, interface, region), 'interface': interface, 'region': region,
                       'region_id': region, 'url': url} for interface in INTERFACES],
    } for kind, name, url in urls]


def served(conf: cfg.ConfigOpts) -> list[Service]:
    """Return the services that this deployment provides.

    A service is omitted if it is external (volume, network) or disabled (object store, key manager).
    """
    elsewhere = {path for path, here in (
        ('/volume', conf.volume.backend == 'embedded'), ('/network', conf.network.backend == 'embedded'),
        ('/objectstore', conf.objectstore.enabled), ('/key-manager', conf.key_manager.enabled)) if not here}
    return [row for row in SERVICES if not row[2].startswith(tuple(elsewhere))]


def for_base(base_url: str, services: Iterable[Service] = SERVICES,
             region: str = REGION) -> Callable[[str | None], Catalog]:
    """Return a callable(project_id) -> catalog for services below one URL."""
    rows = build([(kind, name, base_url.rstrip('/') + path) for kind, name, path in services], region)
    return lambda project_id: rows
