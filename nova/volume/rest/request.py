"""Request to a handler of the Block Storage API."""
from __future__ import annotations

import typing

from nova.volume.rest import schemas
from nova.web.request import BaseRequest

if typing.TYPE_CHECKING:
    from nova.volume.embedded import EmbeddedVolumes


class VolumeRequest(BaseRequest):
    """Request to a handler.

    store          the backend
    query          {name: last value}
    body           value below the route's body key
    microversion   minor version; 0 by default
    """

    __slots__ = ('store', 'microversion')

    def __init__(self, environ: dict[str, typing.Any], store: EmbeddedVolumes) -> None:
        super().__init__(environ)
        self.store, self.microversion = store, 0

    @property
    def trusted(self) -> bool:
        """Whether the caller is a service or an administrator."""
        return self.context.is_admin or 'service' in (self.context.roles or ())

    def satisfies(self, policy: str | None) -> bool:
        """Return whether the caller satisfies a route's policy."""
        return policy is None or bool(self.context.is_admin if policy == schemas.ADMIN else self.trusted)
