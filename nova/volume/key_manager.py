"""The Key Manager service of a deployment, if it has one."""
from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_config.cfg import ConfigOpts

if TYPE_CHECKING:
    from nova.volume.barbican import Barbican


def find(conf: ConfigOpts) -> Barbican | None:
    """The client of the service that [barbican] names; None: it names none."""
    if not conf.barbican.auth_type and not conf.barbican.endpoint_override:
        return None
    from nova.volume import barbican                         # its libraries are loaded where it is used alone
    return barbican.Barbican(conf)
