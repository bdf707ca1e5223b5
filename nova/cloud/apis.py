"""Assembly of the APIs: compute, EC2, and the dashboard in front of them."""
from __future__ import annotations

import os
import pathlib
import sys
from typing import Any, TYPE_CHECKING

from oslo_config import cfg

from nova import exception
from nova import notify
from nova.cloud import assembly
from nova.conductor import interface as conductor_interface

if TYPE_CHECKING:
    from nova.api.services import Services
    from nova.api.ec2.app import Application as Ec2
    from nova.api.ec2.operations import Bundles
    from nova.api.metrics import MetricsMiddleware
    from nova.cloud.assembly import Application
    from nova.db.cells.cells import Cells
    from nova.db.engine import Database
    from nova.identity.embedded.service import IdentityService
    from nova.image.api import Images
    from nova.policy import Policy
    from nova.rpc.bus import Bus
    from nova.virt.ironic import client
    from nova.volume.api import BlockStorage


def api_services(conf: cfg.ConfigOpts, bus: Bus, api_db: Database, cells: Cells, images: Images, rules: Policy,
                 storage: BlockStorage | None = None) -> Services:
    """Return the services for the operations of the compute API (nova.api.services.Services).

    :param storage: the BlockStorage, if it exists already
    """
    from nova.api import app
    from nova.cert import interface as cert_interface
    from nova.compute import interface as compute_interface
    from nova.identity import known_projects
    from nova.network import interface as network_interface
    from nova.scheduler import interface as scheduler_interface

    known = known_projects.Embedded(api_db) if conf.identity.backend == 'embedded' else known_projects.Keystone(conf)
    return app.Services(
        conf=conf, api_db=api_db, cells=cells, policy=rules,
        conductor=bus.client(conductor_interface.INTERFACE), compute=bus.client(compute_interface.INTERFACE),
        network=bus.client(network_interface.INTERFACE), scheduler=bus.client(scheduler_interface.INTERFACE),
        images=images, networks=assembly.networks(conf, api_db),
        volumes=storage or assembly.volumes(conf, api_db, images, cells), shares=assembly.shares(conf),
        notifier=notify.new(conf), projects=known,
        cert=bus.client(cert_interface.INTERFACE), bare_metal=_bare_metal(conf))


def _bare_metal(conf: cfg.ConfigOpts) -> client.Client | None:
    """Return the client of the Bare Metal service, or None if [ironic] names none."""
    if not (conf.ironic.auth_type or conf.ironic.endpoint_override):
        return None
    from nova.virt.ironic import client
    return client.Client(conf)


def api(conf: cfg.ConfigOpts, bus: Bus, api_db: Database, cells: Cells, images: Images, rules: Policy,
        identity_service: IdentityService | None = None, storage: BlockStorage | None = None) -> MetricsMiddleware:
    """Return the compute API behind the pipeline of api-paste.ini for [identity] backend.

    :param rules: policy.Policy
    :param identity_service: the embedded one, when it is the backend
    :param storage: as of ``api_services``
    """
    from paste import deploy

    from nova.api import metrics
    from nova.web import paste_registry

    services = api_services(conf, bus, api_db, cells, images, rules, storage)
    services.check()
    parts: dict[str, Any] = {'api_services': services, 'policy': rules, 'conf': conf}
    if identity_service is not None:
        parts['identity_service'] = identity_service
    registered = {name: paste_registry.register(part) for name, part in parts.items()}
    return metrics.MetricsMiddleware(deploy.loadapp('config:' + paste_file(conf), name=conf.identity.backend,
                                           global_conf=registered))


def local_ec2(conf: cfg.ConfigOpts, api_db: Database, rules: Policy, services: Application,
              identity_service: IdentityService, url: str, bus: Bus | None) -> Ec2:
    """Return the EC2 API of an all-in-one.

    :param rules: policy.Policy
    :param services: the WSGI application that has all services
    :param identity_service: the embedded one
    :param url: public URL
    :param bus: to nova-cert
    """
    from nova.api.ec2 import app
    from nova.api.ec2 import calls
    absent = [name for name, here in (
        ('network', conf.network.backend == 'embedded'), ('volume', conf.volume.backend == 'embedded'),
        ('object', conf.objectstore.enabled)) if not here]
    return app.Application(calls.LocalServices(services, identity_service, absent), api_db, rules, conf.ec2.region, url,
                           _bundles(conf, bus), 'network' not in absent)


def _bundles(conf: cfg.ConfigOpts, bus: Bus | None) -> Bundles | None:
    """Return the decrypter of bundled images for the EC2 API: the certificate service, or None."""
    from nova import context
    from nova.api.ec2 import operations
    from nova.api.ec2.images import imports
    from nova.cert import interface
    if bus is None or not conf.api.nova_network_resources:
        return None
    cert = bus.client(interface.INTERFACE)

    def decrypt(project_id: str, text: str) -> str:
        return str(cert.decrypt_text(context.admin_context(), project_id=project_id, text=text))

    def signed(project_id: str, digest: str, signature: str) -> bool:
        return bool(cert.verify_signature(context.admin_context(), project_id=project_id, digest=digest,
                                          signature=signature))
    return operations.Bundles(decrypt, signed, conf.image.max_size << 30, imports.Imports())


def remote_ec2(conf: cfg.ConfigOpts, api_db: Database, rules: Policy, url: str, bus: Bus | None) -> Ec2:
    """Return the EC2 API of a fleet, which checks signatures at the Identity service with the account of [ec2].

    :param bus: to nova-cert; None: there is none
    """
    from nova.api.ec2 import app
    from nova.api.ec2 import calls
    from nova.cloud import ec2_account
    session, _url, timeout_s = ec2_account.session_of(conf)
    services = calls.RemoteServices(session, 'public', conf.ec2.region, timeout_s)
    return app.Application(services, api_db, rules, conf.ec2.region, url, _bundles(conf, bus),
                           conf.network.backend == 'embedded')


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
    """
    if not conf.dashboard.enabled:
        return application
    from nova.api.dashboard import app
    from nova.web import pipeline
    identity = conf.dashboard.identity_url
    if identity is None and url is None and 'keystone_authtoken' in conf:
        where = conf.keystone_authtoken.www_authenticate_uri
        identity = where and where.rstrip('/').removesuffix('/v3') + '/v3'
    return pipeline.prepend(app.Dashboard(identity, url, conf.dashboard.connect_to).answer, application)
