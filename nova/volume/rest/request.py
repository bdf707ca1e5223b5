"""Request to a handler of the Block Storage API."""
from __future__ import annotations

from collections.abc import Mapping
import typing
from wsgiref.types import WSGIEnvironment

from nova import exception
from nova.web.request import BaseRequest

if typing.TYPE_CHECKING:
    from nova.policy import Policy
    from nova.volume.embedded import EmbeddedVolumes

SEE_ADMINISTRATIVE = 'nova:volumes:administrative'


class VolumeRequest(BaseRequest):
    """Request to a handler.

    store     the block storage backend
    query     {name: last value}
    body      value below the route's body key
    version   minor version; 0 by default
    """

    __slots__ = ('store', 'policy', '_allowed', '_root_url')

    def __init__(self, environ: WSGIEnvironment, store: EmbeddedVolumes, rules: Policy) -> None:
        super().__init__(environ)
        self.store, self.version, self.policy = store, 0, rules
        self._allowed: dict[tuple[str | None, ...], bool] = {}
        self._root_url = ''

    @property
    def root_url(self) -> str:
        """Scheme, host and mount point of the API; cached, because every row of a list has links with this URL."""
        self._root_url = self._root_url or super().root_url
        return self._root_url

    @property
    def trusted(self) -> bool:
        """Whether the caller sees the volumes of servers that are hidden from users, such as VPN instances."""
        return self.allows(SEE_ADMINISTRATIVE)

    def allows(self, rule: str, row: Mapping[str, typing.Any] | None = None) -> bool:
        """Return whether a rule allows the caller to use a resource. The result is cached for each owner.

        :param row: row of the resource, with project_id and maybe user_id; None: the caller's own resources
        """
        owner = (self.context.project_id, self.context.user_id) if row is None else (
            row['project_id'], row.get('user_id'))
        key = (rule, *owner)
        if key not in self._allowed:
            self._allowed[key] = self.policy.allows(self.context, rule, {'project_id': owner[0], 'user_id': owner[1]})
        return self._allowed[key]

    def authorize(self, rule: str, row: Mapping[str, typing.Any] | None = None) -> None:
        """Check a rule; for the parameters see ``allows``.

        :raises PolicyDenied: the rule does not allow the caller to use the resource
        """
        if not self.allows(rule, row):
            raise exception.PolicyDenied(rule=rule)
