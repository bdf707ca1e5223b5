"""Optional parts of the product: modules of the entry point group ``nova.parts``.

Code outside of a part does not import the part's package. A process loads a part only if its configuration enables it
(ADR 0029).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TYPE_CHECKING

from nova import exception
from nova.runtime import entry_points

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.cloud.assembly import Application
    from nova.db.audit import log
    from nova.db.engine import Database
    from nova.identity.embedded.service import IdentityService
    from nova.policy import Policy
    from nova.rpc.bus import Bus
    from nova.rpc.bus import Client
    from nova.runtime import service
    from nova.runtime import tls
    from nova.runtime import wsgi

GROUP = 'nova.parts'


class Certificates(Protocol):
    """Certificate authority for users."""

    def client(self, bus: Bus) -> Client: ...

    def service(self, conf: cfg.ConfigOpts, bus: Bus, host: str) -> service.Service: ...


class Ec2(Protocol):
    """The EC2 API."""

    PATH: str

    def local(self, conf: cfg.ConfigOpts, api_db: Database, rules: Policy, services: Application,
              identity_service: IdentityService, url: str, bus: Bus | None) -> Application: ...


class ObjectStore(Protocol):
    """Object store with the S3 API."""

    PATH: str

    def local(self, conf: cfg.ConfigOpts, rules: Policy, identity_service: IdentityService,
              finish: Callable[[log.Record, int], None]) -> Application: ...

    def server(self, conf: cfg.ConfigOpts, application: Application, threads: int,
               certificate: tls.Tls | None) -> wsgi.Server: ...


def certificates(needed_by: str) -> Certificates:
    """See ``_part``."""
    found: Certificates = _part('certificates', needed_by)
    return found


def ec2(needed_by: str) -> Ec2:
    """See ``_part``."""
    found: Ec2 = _part('ec2', needed_by)
    return found


def object_store(needed_by: str) -> ObjectStore:
    """See ``_part``."""
    found: ObjectStore = _part('objectstore', needed_by)
    return found


def _part(name: str, needed_by: str) -> Any:
    """Return the module of a part.

    :param needed_by: option that enables it, for the error
    :raises InvalidOption: the part is not installed, or its module cannot be imported
    """
    point = entry_points.installed(GROUP).get(name)
    if point is None:
        raise exception.InvalidOption(f'{needed_by}: the optional part {name} is not installed. Install the complete '
                                      f'package, which has it in the entry points {GROUP}, or unset the option.')
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        raise exception.InvalidOption(f'{needed_by}: the optional part {name} ({point.value}) cannot be loaded: '
                                      f'{error}. Repair its package, or unset the option.') from error
