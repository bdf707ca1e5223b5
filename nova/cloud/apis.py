"""Assembly of the compute API, and of the dashboard in front of the APIs."""
from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterator
from typing import Any, TYPE_CHECKING

from oslo_config import cfg

from nova import exception
from nova import notify
from nova import policies
from nova.cloud import assembly
from nova.cloud import optional_parts
from nova.conductor import interface as conductor_interface

if TYPE_CHECKING:
    from nova.api.metrics import MetricsMiddleware
    from nova.api.services import Services
    from nova.cloud.assembly import Application
    from nova.db.cells.cells import Cells
    from nova.db.engine import Database
    from nova.identity.embedded.service import IdentityService
    from nova.image.api import Images
    from nova.policies.service import Service
    from nova.policy import Policies
    from nova.rpc.bus import Bus
    from nova.rpc.bus import Client
    from nova.virt.ironic import client
    from nova.volume.api import BlockStorage


def api_services(conf: cfg.ConfigOpts, bus: Bus, api_db: Database, cells: Cells, images: Images, rules: Policies,
                 storage: BlockStorage | None = None, keys: bool = False) -> Services:
    """Return the services for the operations of the compute API (nova.api.services.Services).

    :param rules: the embedded block storage and network services check theirs, too
    :param storage: the BlockStorage, if it exists already
    :param keys: whether the deployment serves the embedded key manager
    :raises InvalidInput: a policy file is invalid
    """
    from nova.api import app
    from nova.compute import interface as compute_interface
    from nova.identity import known_projects
    from nova.network import interface as network_interface
    from nova.scheduler import interface as scheduler_interface

    known = known_projects.Embedded(api_db) if conf.identity.backend == 'embedded' else known_projects.Keystone(conf)
    return app.Services(
        conf=conf, api_db=api_db, cells=cells, policy=rules.of(),
        all_rules=tuple(rules.of(service) for service in _served(conf, keys)),
        conductor=bus.client(conductor_interface.INTERFACE), compute=bus.client(compute_interface.INTERFACE),
        network=bus.client(network_interface.INTERFACE), scheduler=bus.client(scheduler_interface.INTERFACE),
        images=images, networks=assembly.networks(conf, api_db, rules),
        volumes=assembly.checked_volumes(conf, storage or assembly.volumes(conf, api_db, images, cells), rules),
        shares=assembly.shares(conf), notifier=notify.new(conf), projects=known,
        cert=_certificates(conf, bus), bare_metal=_bare_metal(conf))


def _served(conf: cfg.ConfigOpts, keys: bool) -> Iterator[Service]:
    """Yield the Service of the compute API and of each API that the deployment provides itself."""
    yield policies.COMPUTE
    for service, embedded in ((policies.IDENTITY, conf.identity.backend == 'embedded'),
                              (policies.IMAGE, conf.image.backend == 'embedded'),
                              (policies.BLOCK_STORAGE, conf.volume.backend == 'embedded'),
                              (policies.NETWORK, conf.network.backend == 'embedded'),
                              (policies.KEY_MANAGER, keys)):
        if embedded:
            yield service


def _certificates(conf: cfg.ConfigOpts, bus: Bus) -> Client | None:
    """Return the client of nova-cert, or None if [api] nova_network_resources disables its operations."""
    if not conf.api.nova_network_resources:
        return None
    return optional_parts.certificates('[api] nova_network_resources').client(bus)


def _bare_metal(conf: cfg.ConfigOpts) -> client.Client | None:
    """Return the client of the Bare Metal service, or None if [ironic] names none."""
    if not (conf.ironic.auth_type or conf.ironic.endpoint_override):
        return None
    from nova.virt.ironic import client
    return client.Client(conf)


def api(conf: cfg.ConfigOpts, bus: Bus, api_db: Database, cells: Cells, images: Images, rules: Policies,
        identity_service: IdentityService | None = None, storage: BlockStorage | None = None,
        keys: bool = False) -> MetricsMiddleware:
    """Return the compute API behind the pipeline of api-paste.ini for [identity] backend.

    :param identity_service: the embedded one, when it is the backend
    :param storage, keys: as of ``api_services``
    """
    from paste import deploy

    from nova.api import metrics
    from nova.api.documents import removed
    from nova.web import paste_registry

    services = api_services(conf, bus, api_db, cells, images, rules, storage, keys)
    services.check()
    removed.check(conf)
    parts: dict[str, Any] = {'api_services': services, 'policy': rules.of(), 'conf': conf}
    if identity_service is not None:
        parts['identity_service'] = identity_service
    registered = {name: paste_registry.register(part) for name, part in parts.items()}
    return metrics.MetricsMiddleware(deploy.loadapp('config:' + paste_file(conf), name=conf.identity.backend,
                                           global_conf=registered))


def paste_file(conf: cfg.ConfigOpts) -> str:
    """Return the path of the file with the pipelines.

    :raises InvalidInput: the file is missing
    """
    name = conf.http.paste_config
    places = [conf.find_file(name), pathlib.Path(sys.prefix, 'etc', 'nova', name),
              pathlib.Path(__file__).parents[2] / 'etc' / 'nova' / name]
    for place in places:
        if place and os.path.exists(place):
            return str(place)
    raise exception.InvalidInput(f'{name} was not found; it belongs to /etc/nova.')


def dashboard(conf: cfg.ConfigOpts, application: Application, url: str | None = None) -> Application:
    """Put an application behind the dashboard at /dashboard if it is enabled.

    :param url: of the all-in-one; None: the catalog has the URLs of the APIs
    :raises InvalidInput: [dashboard] websso is malformed, or needs an external Keystone
    """
    if not conf.dashboard.enabled:
        return application
    from nova.api.dashboard import app
    from nova.web import pipeline
    identity = conf.dashboard.identity_url
    if identity is None and url is None and 'keystone_authtoken' in conf:
        where = conf.keystone_authtoken.www_authenticate_uri
        identity = where and where.rstrip('/').removesuffix('/v3') + '/v3'
    page = app.Dashboard(identity, url, conf.dashboard.connect_to, conf.dashboard.websso)
    return pipeline.prepend(page.answer, application)
