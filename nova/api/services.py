"""The services that the handlers of the compute API use."""
from __future__ import annotations

import dataclasses
import functools
import typing

from oslo_config import cfg

from nova import notify
from nova import policy as nova_policy
from nova.api import build_admission
from nova.api import rate_limits
from nova.db import engine
from nova.db.audit import log
from nova.db.cells import cells as db_cells
from nova.hardware import pci_spec
from nova.identity import known_projects
from nova.runtime import encrypted_passwords
from nova.runtime import fairness
from nova.share import api as share_api
from nova.web import application as web_application

if typing.TYPE_CHECKING:
    from nova.virt.ironic.client import Client


@dataclasses.dataclass
class Services:
    """Dependencies of the handlers, which get them as ``req.services``.

    conf       the configuration
    api_db     nova.db.engine.Database of the API database
    cells      nova.db.cells.cells.Cells: .default, .get(uuid), .all() of Cell(uuid, name, db)
    policy     nova.policy.Policy of the compute API
    all_rules  policies of the compute API and of the other APIs that this deployment provides
    conductor, compute, network, scheduler, cert   RPC clients: client.method(ctx, server=None, **arguments)
    images     nova.image.api facade: show, list, create, update, delete
    networks   nova.network.api facade
    volumes    nova.volume.api.BlockStorage
    bare_metal  virt.ironic.client.Client; None without a Bare Metal service
    notifier   publisher of the API's notifications

    The Application sets these fields:

    application   the Application, for operations that call other operations
    rates      rate limits on requests of projects
    streams    limit on concurrent event streams
    passwords  encrypts the passwords in stored requests
    builds     limit on servers that wait to be built
    auditor    writer of audit records
    """

    conf: cfg.ConfigOpts
    api_db: engine.Database
    cells: db_cells.Cells
    policy: nova_policy.Policy
    all_rules: tuple[nova_policy.Policy, ...] = ()
    conductor: typing.Any = None
    compute: typing.Any = None
    network: typing.Any = None
    scheduler: typing.Any = None
    cert: typing.Any = None
    images: typing.Any = None
    networks: typing.Any = None
    volumes: typing.Any = None
    shares: share_api.Shares = share_api.NoShares()
    bare_metal: Client | None = None
    projects: known_projects.Projects = known_projects.Unknown()
    notifier: notify.Notifier | notify.NoNotifier = notify.OFF
    application: web_application.Application = dataclasses.field(init=False)
    rates: rate_limits.RateLimits = dataclasses.field(init=False)
    streams: fairness.ConcurrencyLimit = dataclasses.field(init=False)
    passwords: encrypted_passwords.Passwords = dataclasses.field(init=False)
    builds: build_admission.BuildAdmission = dataclasses.field(init=False)
    auditor: log.Auditor = dataclasses.field(init=False)

    @functools.cached_property
    def pci_aliases(self) -> dict[str, pci_spec.Alias]:
        """{name: nova.hardware.pci_spec.Alias} of [pci] alias.

        :raises InvalidInput: an alias is malformed
        """
        return pci_spec.configured(pci_spec.aliases, self.conf.pci.alias)

    def check(self) -> dict[str, pci_spec.Alias]:
        """Validate options that requests read, so that a mistake fails the start of the service.

        :raises InvalidInput: an option is malformed
        """
        return self.pci_aliases
