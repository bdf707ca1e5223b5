"""Assembly of the services from their parts, for the daemons and the all-in-one.

Each function builds one service and imports only the modules of that service: a compute host loads no database code.
"""
from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TYPE_CHECKING

from oslo_config import cfg

from nova import exception
from nova import notify
from nova.conductor import interface as conductor_interface
from nova.runtime import disk_space
from nova.runtime import health
from nova.runtime import host_identity
from nova.runtime import service
from nova.runtime.http import priorities

if TYPE_CHECKING:
    from nova.db.cells.cells import Cells
    from nova.db.engine import Database
    from nova.identity.embedded.service import IdentityService
    from nova.image.api import Images
    from nova.image.embedded import imports
    from nova.image.embedded.service import Store
    from nova.network import api as network_api
    from nova.network.neutron import api as neutron_api
    from nova.policy import Policies
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

AUDIT_INTERVAL = 600                # seconds between two searches for ports of deleted servers
LATE_INTERVAL = 20                  # seconds between two searches that are limited to recently allocated ports
NETWORK_SYNC_INTERVAL = 60          # seconds between two comparisons of a host's network setup with the database
# seconds between two searches for new hosts, which need a resource provider as parent of Neutron's providers
PROVIDERS_INTERVAL = 30
VIRT_DRIVERS = 'nova.virt.drivers'          # entry point group of drivers in other packages
# {(compute_driver, [libvirt] virt_type): driver with fewer features that replaces compute_driver}
CONTAINERS = {('libvirt', 'lxc'): 'nova.virt.libvirt.containers.driver.ContainerDriver'}
VOLUME_BACKENDS = 'nova.volume.backends'
METADATA_THREADS = 8                # maximum concurrent requests from guests of one host


def open_databases(conf: cfg.ConfigOpts) -> tuple[Database, Database]:
    """Return (API database, default cell's database) of the configuration, not checked."""
    from nova.db.cells import cells
    return (cells.open_database(conf, 'api_database', 'api.sqlite'),
            cells.open_database(conf, 'database', cells.DEFAULT_CELL + '.sqlite'))


def checked_databases(conf: cfg.ConfigOpts, bus: Bus | None = None, sign: bool = True) -> tuple[Database, Cells]:
    """Return (API database, Cells) of a daemon.

    :param bus: rpc.bus.Bus of the process
    :param sign: sign messages with the deployment's key
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
    """Make the bus of an API, conductor or scheduler sign with the deployment's key, and verify messages of hosts."""
    if bus.signatures.mode == 'off':
        return
    from nova.conductor.hosts import trusted_keys
    trusted_keys.TrustedKeys(api_db).use(bus.signatures)
    bus.signatures.enrolling = 'enroll_host'


def enrolled(conf: cfg.ConfigOpts, bus: Bus, api_db: Database | None = None) -> Enrolment:
    """Return the enrolment of a compute or network service, which registers the host's key before all other work.

    :param api_db: API database, with which a network service verifies messages of all hosts; None: a compute service
    """
    from nova.rpc import enrolment
    trusted = None
    if api_db is not None:
        from nova.conductor.hosts import trusted_keys
        trusted = trusted_keys.TrustedKeys(api_db).of
    return enrolment.Enrolment(conf, bus.signatures, conf.host, bus.of_host(conf.host).client(
        conductor_interface.INTERFACE), trusted)


def follow_versions(conf: cfg.ConfigOpts, bus: Bus, cells: Cells) -> None:
    """Make a bus use the lowest service versions of all cells; for cells that are down, the last known ones count."""
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
    """Return the rpc.clients.Clients of one cell's services.

    :param bus: of this process
    :param url: transport URL of the cell, '' if it is the one of ``bus``
    """
    from nova.compute import interface as compute_interface
    from nova.network import interface as network_interface
    from nova.rpc import bus as rpc_bus
    from nova.rpc import clients as rpc_clients
    from nova.scheduler import interface as scheduler_interface

    interfaces = {'compute': compute_interface.INTERFACE, 'conductor': conductor_interface.INTERFACE,
                  'network': network_interface.INTERFACE, 'scheduler': scheduler_interface.INTERFACE}
    if not url and bus is not None:
        return rpc_clients.Clients(lambda: bus, interfaces)
    shared = (None, None) if bus is None else (bus.pins, bus.signatures)
    return rpc_clients.Clients(lambda: rpc_bus.Bus(conf, url, *shared), interfaces, close=rpc_bus.Bus.close)


def needs(bus: Bus | None, api_db: Database | None = None, cells: Cells | None = None) -> health.Dependencies:
    """Return the health check of a daemon's broker and databases; an argument is None if the daemon does not use it."""
    found: dict[str, Callable[..., Any]] = {}
    if bus is not None:
        bus.signatures.warn()
        found['broker'] = bus.reach
    if api_db is not None:
        found['database api'] = api_db.ping
    if cells is not None:
        found['database cell'] = lambda: cells.default.db.ping()
    return health.Dependencies(found)


def conductor(conf: cfg.ConfigOpts, bus: Bus, host: str, api_db: Database, cells: Cells, images: Images,
              storage: BlockStorage | None = None) -> service.Service:
    """Return the conductor service.

    :param storage: the BlockStorage, if it exists already
    """
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


def network(conf: cfg.ConfigOpts, bus: Bus, host: str, api_db: Database, cell_db: Database,
            helper: Helper | None = None) -> service.Service:
    """Return the network service of one host.

    Addresses are allocated in the database, so any of the network services can serve a caller.

    :param cell_db: Database of the cell with the hosts that it serves
    :param helper: privileges.Helper that changes the host's network
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
        if uuids := manager.recent_allocations():
            with api_db.reader() as conn:
                live = mappings.existing(conn, uuids)
            manager.audit(live, uuids)
    return service.Service(conf, 'nova-network', host, interface.INTERFACE, manager, bus, _conductor(bus),
                           admission=authority.admission_of(cell_db), tasks=[
        ('report', gateways.REPORT_S, manager.report), ('sync', NETWORK_SYNC_INTERVAL, manager.sync),
        ('audit', AUDIT_INTERVAL, audit),
        ('audit_late', LATE_INTERVAL, audit_late)])


def network_agent(conf: cfg.ConfigOpts, bus: Bus, host: str, helper: Helper | None = None) -> service.Service:
    """Return the network agent of one host.

    :param helper: privileges.Helper that changes the host's network
    """
    from nova.network import drivers
    from nova.network import interface
    from nova.network.agents import agent

    manager = agent.NetworkAgent(conf, host, drivers.load(conf, helper), bus.client(interface.INTERFACE))
    return service.Service(conf, 'nova-network-agent', host, interface.AGENT, manager, bus, _conductor(bus),
                           admission=agent.admission_of_agent(host),
                           tasks=[('report', agent.REPORT_S, manager.report),
                                  ('sync', NETWORK_SYNC_INTERVAL, manager.sync)])


def _neutron(conf: cfg.ConfigOpts, bus: Bus, host: str, cell_db: Database) -> service.Service:
    """Return the network service for Neutron. The service does not change the network of the host on which it runs."""
    from nova.db.placement import compute_nodes
    from nova.db.servers import ownership
    from nova.network import authority
    from nova.network import interface
    from nova.network.neutron import manager as neutron_manager

    def server_of(uuid: str) -> ownership.Server | None:
        with cell_db.reader() as conn:
            return ownership.server(conn, uuid)

    def host_of(uuid: str) -> str | None:
        server = server_of(uuid)
        return server.host if server else None

    def project_of(uuid: str) -> str | None:
        server = server_of(uuid)
        return server.project_id if server else None

    def nodes() -> list[tuple[str, str, str]]:
        with cell_db.reader() as conn:
            return [(row['host'], row['node'], row['uuid']) for row in compute_nodes.list(conn)]
    manager = neutron_manager.NeutronManager(conf, host_of, nodes=nodes, project_of=project_of)
    return service.Service(conf, 'nova-network', host, interface.INTERFACE, manager, bus, _conductor(bus),
                           admission=authority.admission_of(cell_db),
                           tasks=[('providers', PROVIDERS_INTERVAL, manager.begin)])


def compute(conf: cfg.ConfigOpts, bus: Bus, host: str, images: Images, helper: Helper | None = None) -> service.Service:
    """Return the compute service.

    :param images: nova.image.api.Images; a compute host requests only images that the grant of a task names
    :param helper: privileges.Helper for the driver's privileged steps
    """
    from nova.compute import interface
    from nova.compute import manager as compute_manager
    from nova.image.granted import GrantedImages
    from nova.network import interface as network_interface
    from nova.network.agents import agent_client

    bus = bus.of_host(host)
    granted = GrantedImages(images)
    driver = virt_driver(conf, host, granted, helper)
    # The host's network service creates filters and DHCP entries before a real guest starts.
    plumbed = driver.real_guests and conf.network.driver != 'fake' and conf.network.backend == 'embedded'
    networks: Any = bus.client(network_interface.INTERFACE)
    if plumbed and conf.network.agent:
        networks, plumbed = agent_client.AgentClient(networks, bus.client(network_interface.AGENT), host), False
    manager = compute_manager.ComputeManager(
        conf, host, driver, bus.client(conductor_interface.INTERFACE), networks, granted,
        network_server=host if plumbed else None)
    return service.Service(conf, 'nova-compute', host, interface.INTERFACE, manager, bus, _conductor(bus))


def virt_driver(conf: cfg.ConfigOpts, host: str, images: ImageSource, helper: Helper | None = None) -> ComputeDriver:
    """Return the driver that compute_driver names.

    :param helper: see ``compute``
    :raises InvalidOption: there is no such driver, a dependency is not installed, or a method of the contract is
        missing
    """
    from nova.runtime import entry_points
    from nova.virt import driver
    name = CONTAINERS.get((conf.compute_driver, conf.libvirt.virt_type), conf.compute_driver)
    found = entry_points.named('compute_driver', name, VIRT_DRIVERS)
    made: ComputeDriver = found(conf, host, images, _image_check(conf), helper)
    missing = driver.missing_methods(made)
    if missing:
        raise exception.InvalidOption(
            f'compute_driver: the driver {name} does not implement {", ".join(missing)}. '
            f'The contract of drivers in nova/virt/driver.py requires these methods.')
    return made


def _image_check(conf: cfg.ConfigOpts) -> Callable[[str, str], None]:
    from nova.image import inspector
    limit = conf.image.max_virtual_size << 30
    return lambda path, disk_format: inspector.verify(inspector.inspect_file(path), disk_format, limit)


def images(conf: cfg.ConfigOpts, api_db: Database, store: Store | None = None) -> Images:
    """Return the image service that [image] backend names.

    :param store: the embedded store, if it exists already
    """
    if conf.image.backend != 'embedded':
        return remote_images(conf)
    from nova.image.embedded.images import EmbeddedImages
    return EmbeddedImages(store or image_store(conf, api_db))


def image_store(conf: cfg.ConfigOpts, api_db: Database, rules: Policies | None = None) -> Store:
    """Return the embedded image store.

    :param rules: of the process; None: those of the policy file are read
    """
    from nova import policies
    from nova import policy
    from nova.db.projects import storage_quotas
    from nova.image.embedded import service as embedded
    options = conf.image
    # without links, which the sandbox of qemu-img refuses
    directory = os.path.realpath(options.directory or os.path.join(host_identity.state_path(conf), 'images'))
    return embedded.Store(api_db, directory,
                          max_size=options.max_size * embedded.GIB,
                          max_virtual_size=options.max_virtual_size * embedded.GIB,
                          limits=functools.partial(storage_quotas.of_images, conf),
                          reserve=disk_space.reserve_of(conf),
                          rules=(rules or policy.Policies(conf)).of(policies.IMAGE),
                          importing=_importing(conf))


def _importing(conf: cfg.ConfigOpts) -> imports.Settings:
    """Return the settings of image imports.

    :raises InvalidInput: a network cannot be parsed
    """
    import ipaddress
    import urllib.parse
    from nova.image.embedded import imports
    try:
        networks = tuple(ipaddress.ip_network(text) for text in conf.image.import_networks)
    except ValueError as error:
        raise exception.InvalidInput(f'[image] import_networks: {error}.') from None
    own = conf.my_ip, urllib.parse.urlsplit(conf.http.public_url or '').hostname
    return imports.Settings(tuple(conf.image.import_methods), networks, tuple(host for host in own if host))


def volumes(conf: cfg.ConfigOpts, api_db: Database, images: Images, cells: Cells | None = None) -> BlockStorage:
    """Return the BlockStorage of [volume] backend.

    :param images: nova.image.api.Images, source of the embedded volumes
    :param cells: of the embedded block storage: Cells with the guests that it notifies of volume changes, and with
        its service rows
    """
    from nova.runtime import entry_points
    if conf.volume.backend == 'embedded':
        from nova.volume import embedded
        return embedded.EmbeddedVolumes.new(conf, api_db, images, cells)
    return entry_points.named('[volume] backend', conf.volume.backend, VOLUME_BACKENDS).new(conf, api_db, images)


def checked_volumes(conf: cfg.ConfigOpts, storage: BlockStorage, rules: Policies) -> BlockStorage:
    """Return the block storage for the compute API; the embedded block storage checks its policy rules."""
    if conf.volume.backend != 'embedded':
        return storage
    from nova import policies
    from nova.volume import checked
    from nova.volume.embedded import EmbeddedVolumes
    assert isinstance(storage, EmbeddedVolumes)
    return checked.CheckedVolumes(storage, rules.of(policies.BLOCK_STORAGE))


def identity(conf: cfg.ConfigOpts, api_db: Database, base_url: str) -> IdentityService:
    """Return the embedded identity service."""
    from nova.db.projects import storage_quotas
    from nova.identity.embedded import catalog
    from nova.identity.embedded import service as identity_service

    def image_limits() -> dict[str, int]:
        with api_db.reader() as conn:
            return storage_quotas.registered(conn, conf)
    return identity_service.IdentityService(conf, api_db, os.path.join(host_identity.state_path(conf), 'keys'),
                                            catalog.for_base(base_url, catalog.served(conf)),
                                            image_limits=image_limits if conf.image.backend == 'embedded' else None)


def networks(conf: cfg.ConfigOpts, api_db: Database, rules: Policies | None = None
             ) -> network_api.API | neutron_api.API:
    """Return the network client of the compute API for [network] backend.

    :param rules: rules that users must pass in the embedded network service; None: nothing is checked
    """
    if conf.network.backend == 'neutron':
        from nova.network.neutron import api as neutron
        return neutron.API(conf)
    from nova import policies
    from nova.network import api
    return api.API(api_db, conf, rules.of(policies.NETWORK) if rules is not None else None)


def shares(conf: cfg.ConfigOpts) -> Shares:
    """Return the client of the Shared File Systems service, or NoShares if [manila] configures none."""
    from nova.share import api
    if not (conf.manila.auth_type or conf.manila.endpoint_override):
        return api.NoShares()
    from nova.share import manila
    return manila.ManilaShares(conf)


def metadata(conf: cfg.ConfigOpts, api_db: Database, cells: Cells) -> list[Server]:
    """Return [metadata server on this host's bridge], or [] if the network service creates no bridge."""
    if conf.network.driver == 'fake' or conf.network.backend != 'embedded':
        return []
    from nova.network import setup

    return [metadata_server(conf, api_db, cells, *setup.metadata_address(conf, api_db))]


def metadata_server(conf: cfg.ConfigOpts, api_db: Database, cells: Cells, address: str, port: int) -> Server:
    """Return the metadata server of one host's guests, not started."""
    from nova.api.metadata import app
    from nova.runtime import wsgi

    return wsgi.Server(app.Application(conf, api_db, cells), address, port, plan=priorities.Plan(METADATA_THREADS, 1))


def remote_images(conf: cfg.ConfigOpts) -> Images:
    """Return the client of the Image service for a daemon without database access.

    :raises InvalidInput: [image] backend is embedded: such a daemon needs an Image service
    """
    if conf.image.backend == 'embedded':
        raise exception.InvalidInput('This service has no image store of its own: set backend in [image] to glance, '
                                     'and in [glance] the address and the account of the Image service.')
    from nova.image import glance
    return glance.GlanceImages(conf)


def _conductor(bus: Bus) -> Client:
    """Return the conductor client of a service without a database."""
    return bus.client(conductor_interface.INTERFACE)
