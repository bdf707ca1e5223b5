"""Entry point of the certificate authority (nova.cloud.optional_parts.Certificates)."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova.cert import interface
from nova.conductor import interface as conductor_interface
from nova.runtime import service as runtime

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.rpc.bus import Bus
    from nova.rpc.bus import Client


def client(bus: Bus) -> Client:
    """Return the RPC client of nova-cert."""
    return bus.client(interface.INTERFACE)


def service(conf: cfg.ConfigOpts, bus: Bus, host: str) -> runtime.Service:
    """Return the certificate authority, which uses files of its host."""
    from nova.cert import authorities
    from nova.cert import manager
    return runtime.Service(conf, 'nova-cert', host, interface.INTERFACE, manager.CertManager(authorities.of(conf)),
                           bus, bus.client(conductor_interface.INTERFACE))
