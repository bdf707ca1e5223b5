"""Services composed of their parts: what the daemons and the all-in-one share.

Each function builds one service and imports only what that service is made of: a compute host loads no database
code.
"""
from __future__ import annotations

import functools
import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any, TYPE_CHECKING

from oslo_config import cfg

from nova import exception
from nova import notify
from nova.conductor import interface as conductor_interface
from nova.runtime import disk_space
from nova.runtime import health
from nova.runtime import service
from nova.runtime.http import priorities

if TYPE_CHECKING:
    from nova.api.app import Services
    from nova.api.ec2.app import Application as Ec2
    from nova.api.ec2.operations import Bundles
    from nova.api.metrics import Measured
    from nova.db.cells.cells import Cells
    from nova.db.engine import Database
    from nova.identity.embedded.service import IdentityService
    from nova.image.api import Images
    from nova.image.embedded.service import Store
    from nova.policy import Policy
    from nova.rpc.bus import Bus
    from nova.rpc.bus import Client
    from nova.rpc.clients import Clients
    from nova.rpc.enrolment import Enrolment
    from nova.runtime.http.server import Server
    from nova.runtime.privileges import Helper
    from nova.share.api import Shares
    from nova.virt.driver import ComputeDriver
    from nova.virt.driver import ImageSource
    from nova.volume.api import BlockStorage

Application = Callable[[dict[str, Any], Callable[..., Any]], Any]          # of WSGI

AUDIT_INTERVAL = 600                # seconds between two searches for ports of servers that are gone
LATE_INTERVAL = 20                  # the same, of those that have just got theirs
NETWORK_SYNC_INTERVAL = 60          # seconds between two comparisons of a host's plumbing with the database
VIRT_DRIVERS = 'nova.virt.drivers'          # groups of entry points: where other packages add theirs
# (compute_driver, [libvirt] virt_type): the driver, which does less
CONTAINERS = {('libvirt', 'lxc'): 'nova.virt.libvirt.containers.driver.ContainerDriver'}
VOLUME_BACKENDS = 'nova.volume.backends'
METADATA_THREADS = 8                # guests of one host that are answered at once


def open_databases(conf: cfg.ConfigOpts) -> tuple[Database, Database]:
    """(API database, default cell's database) of the configuration, not checked."""
    from nova.db.cells import cells
    return (cells.open_database(conf, 'api_database', 'api.sqlite'),
            cells.open_database(conf, 'database', cells.DEFAULT_CELL + '.sqlite'))


def checked_databases(conf: cfg.ConfigOpts, bus: Bus | None = None, sign: bool = True) -> tuple[Database, Cells]:
    """(API database, Cells) of a daemon.

    :param bus: rpc.bus.Bus of the process
    :param sign: with the deployment's key
    :raises DatabaseNotReady: a schema is not the one of this code
    """
    from nova.db import schema as migration
    from nova.db.cells import cells

    api_db, cell_db = open_databases(conf)
    migration.check(api_db, 'api')
    migration.check(cell_db, 'cell')
    made = cells.Cells(conf, api_db, cell_db, lambda url: clients(conf, bus, url))
    if bus is not None:
        follow_versions(conf, bus, made)
        if sign:
            sign_as_deployment(bus, api_db)
    return api_db, made


def sign_as_deployment(bus: Bus, api_db: Database) -> None:
    """Let a bus sign with the deployment's key, and know those of the hosts: for API, conductors and schedulers."""
    if bus.signatures.mode == 'off':
        return
    from nova.conductor.hosts import trusted_keys
    trusted_keys.TrustedKeys(api_db).use(bus.signatures)
    bus.signatures.enrolling = 'enroll_host'


def enrolled(conf: cfg.ConfigOpts, bus: Bus, api_db: Database | None = None) -> Enrolment:
    """A part of the process of a compute or network service: its host's key is known before it does anything else.

    :param api_db: of a network service, which takes messages of all hosts; it does not read the deployment's key
    """
    from nova.rpc import enrolment
    trusted = None
    if api_db is not None:
        from nova.conductor.hosts import trusted_keys
        trusted = trusted_keys.TrustedKeys(api_db).of
    return enrolment.Enrolment(conf, bus.signatures, conf.host, bus.of_host(conf.host).client(
        conductor_interface.INTERFACE), trusted)


def follow_versions(conf: cfg.ConfigOpts, bus: Bus, cells: Cells) -> None:
    """Let a bus go by the service rows of all cells; of one that is down by what it said before."""
    from nova.db.services import services

    known: dict[str, dict[str, int]] = {}

    def look() -> dict[str, int]:
        found, down = cells.read(lambda conn: services.lowest_versions(conn, conf.service_down_time))
        seen = {cell.uuid: versions for cell, versions in found}
        seen.update((cell.uuid, known[cell.uuid]) for cell in down if cell.uuid in known)
        known.update(seen)
        merged: dict[str, int] = {}
        for versions in seen.values():
            for topic, version in versions.items():
                merged[topic] = min(version, merged.get(topic, version))
        return merged
    bus.pins.follow(look)


def clients(conf: cfg.ConfigOpts, bus: Bus | None, url: str) -> Clients:
    """The rpc.clients.Clients of one cell's services.

    :param bus: of this process
    :param url: transport URL of the cell, '' where this process's own bus is its
    """
    from nova.compute import interface as compute_interface
    from nova.network import interface as network_interface
    from nova.rpc import bus as rpc_bus
    from nova.rpc import clients as rpc_clients
    from nova.scheduler import interface as scheduler_interface

    interfaces = {'compute': compute_interface.INTERFACE, 'conductor': conductor_interface.INTERFACE,
                  'network': network_interface.INTERFACE, 'scheduler': scheduler_interface.INTERFACE}
    if not url:
        return rpc_clients.Clients(lambda: bus, interfaces)
    return rpc_clients.Clients(lambda: rpc_bus.Bus(conf, url, bus and bus.pins, bus and bus.signatures), interfaces,
                               close=rpc_bus.Bus.close)


def needs(bus: Bus | None, api_db: Database | None = None, cells: Cells | None = None) -> health.Needs:
    """What a daemon needs of others to be ready, as a part of it; None: it does without."""
    found: dict[str, Callable[..., Any]] = {}
    if bus is not None:
        bus.signatures.warn()
        found['broker'] = bus.reach
    if api_db is not None:
        found['database api'] = api_db.ping
    if cells is not None:
        found['database cell'] = lambda: cells.default.db.ping()
    return health.Needs(found)


def conductor(conf: cfg.ConfigOpts, bus: Bus, host: str, api_db: Database, cells: Cells, images: Images,
              storage: BlockStorage | None = None) -> service.Service:
    """:param storage: the BlockStorage, where they are there already"""
    from nova.compute import interface as compute_interface
    from nova.conductor import manager as conductor_manager
    from nova.conductor.cell_services import CellServices
    from nova.network import interface as network_interface

    manager = conductor_manager.ConductorManager(CellServices(
        conf=conf, api_db=api_db, cells=cells, scheduler=cells.top.rpc.scheduler,
        compute=bus.client(compute_interface.INTERFACE), network=bus.client(network_interface.INTERFACE),
        images=images, volumes=storage or volumes(conf, api_db, images, cells),
        shares=shares(conf), notifier=notify.new(conf, 'nova-conductor'),
        lowest_versions=bus.pins.lowest))
    return service.Service(conf, 'nova-conductor', host, conductor_interface.INTERFACE, manager, bus,
                           manager.methods, admission=manager.admission())


def scheduler(conf: cfg.ConfigOpts, bus: Bus, host: str, api_db: Database, cells: Cells) -> service.Service:
    from nova.scheduler import driver as scheduler_driver
    from nova.scheduler import interface
    from nova.scheduler import notifications

    manager: Any = scheduler_driver.load(conf, api_db, cells)
    notifier = notify.new(conf, 'nova-scheduler')
    if isinstance(notifier, notify.Notifier):
        manager = notifications.NotifyingManager(manager, notifier)
    return service.Service(conf, 'nova-scheduler', host, interface.INTERFACE, manager, bus, _conductor(bus))


def cert(conf: cfg.ConfigOpts, bus: Bus, host: str) -> service.Service:
    """The certificate authority, which works on files of its host."""
    from nova.cert import authorities
    from nova.cert import interface
    from nova.cert import manager
    return service.Service(conf, 'nova-cert', host, interface.INTERFACE, manager.CertManager(authorities.of(conf)),
                           bus, _conductor(bus))


def network(conf: cfg.ConfigOpts, bus: Bus, host: str, api_db: Database, cell_db: Database,
            helper: Helper | None = None) -> service.Service:
    """The network service of one host. Its address allocation is the database's; any of them serves any caller.

    :param cell_db: Database of the cell whose hosts it serves
    :param helper: privileges.Helper that touches the host for it
    """
    from nova.db.servers import mappings
    from nova.network import authority
    if conf.network.backend == 'neutron':
        return _neutron(conf, bus, host, cell_db)
    from nova.network import drivers
    from nova.network import gateways
    from nova.network import interface
    from nova.network import manager as network_manager

    manager = network_manager.NetworkManager(conf, api_db, host, drivers.load(conf, helper), cell_db,
                                             bus.client(interface.INTERFACE), bus.client(interface.AGENT))

    def audit() -> None:
        with api_db.reader() as conn:
            live = mappings.uuids(conn)
        manager.audit(live)

    def audit_late() -> None:
        if uuids := manager.given_before():
            with api_db.reader() as conn:
                live = mappings.existing(conn, uuids)
            manager.audit(live, uuids)
    return service.Service(conf, 'nova-network', host, interface.INTERFACE, manager, bus, _conductor(bus),
                           admission=authority.admission_of(cell_db), tasks=[
        ('report', gateways.REPORT_S, manager.report), ('sync', NETWORK_SYNC_INTERVAL, manager.sync),
        ('audit', AUDIT_INTERVAL, audit),
        ('audit_late', LATE_INTERVAL, audit_late)])


def network_agent(conf: cfg.ConfigOpts, bus: Bus, host: str, helper: Helper | None = None) -> service.Service:
    """The agent of the network services on one host.

    :param helper: privileges.Helper that touches the host for it
    """
    from nova.network.agents import agent
    from nova.network import drivers
    from nova.network import interface

    manager = agent.NetworkAgent(conf, host, drivers.load(conf, helper), bus.client(interface.INTERFACE))
    return service.Service(conf, 'nova-network-agent', host, interface.AGENT, manager, bus, _conductor(bus),
                           admission=agent.admission_of_agent(host),
                           tasks=[('report', agent.REPORT_S, manager.report),
                                  ('sync', NETWORK_SYNC_INTERVAL, manager.sync)])


def _neutron(conf: cfg.ConfigOpts, bus: Bus, host: str, cell_db: Database) -> service.Service:
    """The network service that speaks to a Networking service; it leaves its own host alone."""
    from nova.db.servers import ownership
    from nova.network import authority
    from nova.network import interface
    from nova.network.neutron import manager as neutron_manager

    def host_of(uuid: str) -> str | None:
        with cell_db.reader() as conn:
            server = ownership.server(conn, uuid)
        return server.host if server else None
    manager = neutron_manager.NeutronManager(conf, host_of)
    return service.Service(conf, 'nova-network', host, interface.INTERFACE, manager, bus, _conductor(bus),
                           admission=authority.admission_of(cell_db))


def compute(conf: cfg.ConfigOpts, bus: Bus, host: str, images: Images, helper: Helper | None = None) -> service.Service:
    """
    :param images: nova.image.api.Images; a compute host asks for what the grant of a task names, and nothing else
    :param helper: privileges.Helper that does the driver's privileged steps
    """
    from nova.compute import interface
    from nova.compute import manager as compute_manager
    from nova.image import grants
    from nova.network import interface as network_interface
    from nova.network.agents import plumbed_client

    bus = bus.of_host(host)
    granted = grants.GrantedImages(images)
    driver = virt_driver(conf, host, granted, helper)
    # filters and DHCP entries are there before a guest: its host's own service makes them, where guests are real
    plumbed = driver.real_guests and conf.network.driver != 'fake' and conf.network.backend == 'embedded'
    networks: Any = bus.client(network_interface.INTERFACE)
    if plumbed and conf.network.agent:
        networks, plumbed = plumbed_client.Plumbed(networks, bus.client(network_interface.AGENT), host), False
    manager = compute_manager.ComputeManager(
        conf, host, driver, bus.client(conductor_interface.INTERFACE), networks, granted,
        network_server=host if plumbed else None)
    return service.Service(conf, 'nova-compute', host, interface.INTERFACE, manager, bus, _conductor(bus))


def virt_driver(conf: cfg.ConfigOpts, host: str, images: ImageSource, helper: Helper | None = None) -> ComputeDriver:
    """The driver that compute_driver names.

    :param helper: see ``compute``
    :raises InvalidOption: there is none of this name, or it needs something that is not installed
    """
    from nova.runtime import entry_points
    name = CONTAINERS.get((conf.compute_driver, conf.libvirt.virt_type), conf.compute_driver)
    found = entry_points.named('compute_driver', name, VIRT_DRIVERS)
    return found(conf, host, images, _image_check(conf), helper)


def _image_check(conf: cfg.ConfigOpts) -> Callable[[str, str], None]:
    from nova.image import inspector
    limit = conf.image.max_virtual_size << 30
    return lambda path, disk_format: inspector.verify(inspector.inspect_file(path), disk_format, limit)


def images(conf: cfg.ConfigOpts, api_db: Database, store: Store | None = None) -> Images:
    """The Images that [image] backend names.

    :param store: the embedded store, where it is there already
    """
    if conf.image.backend != 'embedded':
        return remote_images(conf)
    from nova.image import api
    return api.EmbeddedImages(store or image_store(conf, api_db))


def image_store(conf: cfg.ConfigOpts, api_db: Database) -> Store:
    """The embedded image store."""
    from nova.db.cells import cells
    from nova.db.projects import storage_quotas
    from nova.image.embedded import service as embedded
    options = conf.image
    return embedded.Store(api_db, options.directory or os.path.join(cells.state_path(conf), 'images'),
                          max_size=options.max_size * embedded.GIB,
                          max_virtual_size=options.max_virtual_size * embedded.GIB,
                          limits=functools.partial(storage_quotas.of_images, conf),
                          reserve=disk_space.Reserve(options.free_disk_reserve * disk_space.MIB))


def volumes(conf: cfg.ConfigOpts, api_db: Database, images: Images, cells: Cells | None = None) -> BlockStorage:
    """The BlockStorage that [volume] backend names.

    :param images: nova.image.api.Images, what the embedded volumes are made from
    :param cells: Cells, where guests are that the embedded block storage notifies of changes of their volumes
    """
    from nova.runtime import entry_points
    if conf.volume.backend == 'embedded':
        from nova.volume import embedded
        from nova.volume.store import guests
        return embedded.EmbeddedVolumes.new(conf, api_db, images, guests.Guests(cells) if cells else None)
    return entry_points.named('[volume] backend', conf.volume.backend, VOLUME_BACKENDS).new(conf, api_db, images)


def identity(conf: cfg.ConfigOpts, api_db: Database, base_url: str) -> IdentityService:
    """The embedded identity service."""
    from nova.db.cells import cells
    from nova.identity.embedded import catalog
    from nova.identity.embedded import service as identity_service
    return identity_service.IdentityService(conf, api_db, os.path.join(cells.state_path(conf), 'keys'),
                                            catalog.for_base(base_url, catalog.served(conf)))


def networks(conf: cfg.ConfigOpts, api_db: Database) -> Any:
    """What the compute API needs of the network service that [network] backend names."""
    if conf.network.backend == 'neutron':
        from nova.network.neutron import api as neutron
        return neutron.API(conf)
    from nova.network import api
    return api.API(api_db, conf)


def api_services(conf: cfg.ConfigOpts, bus: Bus, api_db: Database, cells: Cells, images: Images, rules: Policy,
                 storage: BlockStorage | None = None) -> Services:
    """What the operations of the compute API may use (nova.api.app.Services).

    :param storage: the BlockStorage, where they are there already
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
        images=images, networks=networks(conf, api_db),
        volumes=storage or volumes(conf, api_db, images, cells), shares=shares(conf),
        notifier=notify.new(conf), projects=known,
        cert=bus.client(cert_interface.INTERFACE), bare_metal=_bare_metal(conf))


def shares(conf: cfg.ConfigOpts) -> Shares:
    """The client of the Shared File Systems service, where [manila] names one."""
    from nova.share import api
    from nova.share import manila
    named = conf.manila.auth_type or conf.manila.endpoint_override
    return manila.ManilaShares(conf) if named else api.NoShares()


def _bare_metal(conf: cfg.ConfigOpts) -> Any:
    """The client of the Bare Metal service; None where [ironic] names none."""
    if not (conf.ironic.auth_type or conf.ironic.endpoint_override):
        return None
    from nova.virt.ironic import client
    return client.Client(conf)


def api(conf: cfg.ConfigOpts, bus: Bus, api_db: Database, cells: Cells, images: Images, rules: Policy,
        identity_service: IdentityService | None = None, storage: BlockStorage | None = None) -> Measured:
    """The compute API behind the pipeline of api-paste.ini that [identity] backend names.

    :param rules: policy.Policy
    :param identity_service: the embedded one, when it is the backend
    :param storage: as of ``api_services``
    """
    from paste import deploy

    from nova.api import metrics
    from nova.web import paste as offers

    services = api_services(conf, bus, api_db, cells, images, rules, storage)
    services.check()
    offered = {'api_services': offers.offer(services), 'policy': offers.offer(rules), 'conf': offers.offer(conf)}
    if identity_service is not None:
        offered['identity_service'] = offers.offer(identity_service)
    return metrics.Measured(deploy.loadapp('config:' + paste_file(conf), name=conf.identity.backend,
                                            global_conf=offered))


def local_ec2(conf: cfg.ConfigOpts, api_db: Database, rules: Policy, services: Application,
              identity_service: IdentityService, url: str, bus: Bus | None) -> Ec2:
    """The EC2 API of an all-in-one.

    :param rules: policy.Policy
    :param services: the WSGI application that has all services
    :param identity_service: the embedded one
    :param url: where clients reach it
    :param bus: to nova-cert
    """
    from nova.api.ec2 import app
    from nova.api.ec2 import calls
    absent = [name for name, here in (
        ('network', conf.network.backend == 'embedded'), ('volume', conf.volume.backend == 'embedded'),
        ('object', conf.objectstore.enabled)) if not here]
    return app.Application(calls.LocalServices(services, identity_service, absent), api_db, rules, conf.ec2.region, url,
                           _bundles(conf, bus))


def _bundles(conf: cfg.ConfigOpts, bus: Bus | None) -> Bundles | None:
    """What opens bundled images for the EC2 API: the certificate service, where the deployment has one."""
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
    """The EC2 API of a fleet: it logs in with the account of [ec2] and asks the Identity service about signatures.

    :param bus: to nova-cert; None: there is none
    """
    from keystoneauth1 import loading

    from nova.api.ec2 import app
    from nova.api.ec2 import calls
    if not conf.ec2.auth_type:
        raise exception.InvalidInput('[ec2] names no account: auth_type, auth_url, username, password and project of a '
                                     'service that may check signatures.')
    auth = loading.load_auth_from_conf_options(conf, 'ec2')
    session = loading.load_session_from_conf_options(conf, 'ec2', auth=auth)
    services = calls.RemoteServices(session, 'public', conf.ec2.region, conf.ec2.timeout or 60)
    return app.Application(services, api_db, rules, conf.ec2.region, url, _bundles(conf, bus))


def paste_file(conf: cfg.ConfigOpts) -> str:
    """The path of the file with the pipelines.

    :raises InvalidInput: it is nowhere
    """
    name = conf.http.paste_config
    places = [conf.find_file(name), pathlib.Path(sys.prefix, 'etc', 'nova', name),
              pathlib.Path(__file__).parents[2] / 'etc' / 'nova' / name]
    for place in places:
        if place and os.path.exists(place):
            return str(place)
    raise exception.InvalidInput(f'{name} was not found; it belongs to /etc/nova.')


def metadata(conf: cfg.ConfigOpts, api_db: Database, cells: Cells) -> list[Server]:
    """The metadata service on the bridge, as a list: empty where the network driver makes no bridge."""
    if conf.network.driver == 'fake' or conf.network.backend != 'embedded':
        return []
    from nova.network import setup

    return [metadata_server(conf, api_db, cells, *setup.metadata_address(conf, api_db))]


def metadata_server(conf: cfg.ConfigOpts, api_db: Database, cells: Cells, address: str, port: int) -> Server:
    """The server of the guests of one host, not started."""
    from nova.api.metadata import app
    from nova.runtime import wsgi

    return wsgi.Server(app.Application(conf, api_db, cells), address, port, plan=priorities.Plan(METADATA_THREADS, 1))


def dashboard(conf: cfg.ConfigOpts, application: Application, url: str | None = None) -> Application:
    """An application behind the dashboard below /dashboard, where it is wanted.

    :param url: of the all-in-one; None: the APIs are where the catalog says
    """
    if not conf.dashboard.enabled:
        return application
    from nova.api.dashboard import app
    from nova.web import pipeline
    identity = conf.dashboard.identity_url
    if identity is None and url is None and 'keystone_authtoken' in conf:
        where = conf.keystone_authtoken.www_authenticate_uri
        identity = where and where.rstrip('/').removesuffix('/v3') + '/v3'
    return pipeline.before(app.Dashboard(identity, url, conf.dashboard.connect_to).answer, application)


def remote_images(conf: cfg.ConfigOpts) -> Images:
    """Images of a daemon that has no database.

    :raises InvalidInput: the images are the all-in-one's own, without an address in [glance]
    """
    if conf.image.backend == 'embedded':
        raise exception.InvalidInput('This service has no image store of its own: set backend in [image] to glance, '
                                     'and in [glance] the address and the account of the Image service.')
    from nova.image import glance
    return glance.GlanceImages(conf)


def _conductor(bus: Bus) -> Client:
    """Whom a service that has no database reports to."""
    return bus.client(conductor_interface.INTERFACE)
