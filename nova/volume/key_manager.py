"""Find the Key Manager service of a deployment."""
from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_config.cfg import ConfigOpts

if TYPE_CHECKING:
    from nova.volume.barbican import Barbican


def find(conf: ConfigOpts) -> Barbican | None:
    """Return the client for [barbican], or None if it is not configured."""
    if not conf.barbican.auth_type and not conf.barbican.endpoint_override:
        return None
    from nova.volume import barbican                         # load Barbican's libraries only if necessary
    return barbican.Barbican(conf)
