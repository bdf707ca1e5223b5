"""Entry point of the EC2 API (nova.cloud.optional_parts.Ec2)."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova import context
from nova.cloud import ec2_account
from nova.cloud import optional_parts
from nova.ec2 import app
from nova.ec2 import calls
from nova.ec2 import operations
from nova.ec2.images import imports

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.cloud.assembly import Application
    from nova.db.engine import Database
    from nova.identity.embedded.service import IdentityService
    from nova.policy import Policy
    from nova.rpc.bus import Bus

PATH = '/services/Cloud'


def local(conf: cfg.ConfigOpts, api_db: Database, rules: Policy, services: Application,
          identity_service: IdentityService, url: str, bus: Bus | None) -> app.Application:
    """Return the EC2 API of an all-in-one.

    :param rules: policy.Policy
    :param services: the WSGI application that has all services
    :param identity_service: the embedded one
    :param url: public URL
    :param bus: to nova-cert
    """
    absent = [name for name, here in (
        ('network', conf.network.backend == 'embedded'), ('volume', conf.volume.backend == 'embedded'),
        ('object', conf.objectstore.enabled)) if not here]
    return app.Application(calls.LocalServices(services, identity_service, absent), api_db, rules, conf.ec2.region, url,
                           _bundles(conf, bus), 'network' not in absent)


def remote(conf: cfg.ConfigOpts, api_db: Database, rules: Policy, url: str, bus: Bus | None) -> app.Application:
    """Return the EC2 API of several hosts, which checks signatures at the Identity service with the account of [ec2].

    :param bus: to nova-cert; None: there is none
    """
    session, _url, timeout_s = ec2_account.session_of(conf)
    services = calls.RemoteServices(session, 'public', conf.ec2.region, timeout_s)
    return app.Application(services, api_db, rules, conf.ec2.region, url, _bundles(conf, bus),
                           conf.network.backend == 'embedded')


def _bundles(conf: cfg.ConfigOpts, bus: Bus | None) -> operations.Bundles | None:
    """Return the client of nova-cert that decrypts bundled images, or None if nova-cert is not used."""
    if bus is None or not conf.api.nova_network_resources:
        return None
    cert = optional_parts.certificates('[api] nova_network_resources').client(bus)

    def decrypt(project_id: str, text: str) -> str:
        return str(cert.decrypt_text(context.admin_context(), project_id=project_id, text=text))

    def signed(project_id: str, digest: str, signature: str) -> bool:
        return bool(cert.verify_signature(context.admin_context(), project_id=project_id, digest=digest,
                                          signature=signature))
    return operations.Bundles(decrypt, signed, conf.image.max_size << 30, imports.Imports())
