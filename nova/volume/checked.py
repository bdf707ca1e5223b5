"""The embedded block storage for the compute API: each operation checks the Block Storage API's policy rules.

Cinder also checks these rules. When rules of attachments are checked, the caller also has the role service, because the
compute API is a service of the deployment; a policy file may restrict users further.

Compute hosts complete attachments and detachments, but do not act for a user. So all rules for creating an attachment
are checked when the volume is reserved, and the rule for deleting it when the detachment begins. Cleanup is not
checked, so an attachment that was just created can always be deleted.
"""
from __future__ import annotations

from collections.abc import Sequence
import copy

from nova import exception
from nova import policy
from nova.context import ALL_PROJECTS
from nova.context import RequestContext
from nova.db.engine import Table
from nova.db.tables import volume as t
from nova.db.volumes import volumes as db
from nova.volume import api
from nova.volume.embedded import EmbeddedVolumes
from nova.volume.store import types

SERVICE = 'service'
_ACTION = 'volume_extension:volume_actions:'
_ATTACH = ('volume:attachment_create', 'volume:attachment_update', 'volume:attachment_complete')


class CheckedVolumes(api.BlockStorage):
    """The operations that the compute API uses; each checks its rules first.

    :param rules: policy.Policy of the block storage API
    """

    def __init__(self, backend: EmbeddedVolumes, rules: policy.Policy) -> None:
        self._backend, self._rules = backend, rules

    @property
    def keeps_chains(self) -> bool:
        return self._backend.keeps_chains

    # ---- volumes

    def get(self, ctx: RequestContext, volume_id: str) -> api.Volume:
        self._check(ctx, 'volume:get', t.volumes, volume_id)
        return self._backend.get(ctx, volume_id)

    def list(self, ctx: RequestContext, limit: int, offset: int = 0) -> Sequence[api.Volume]:
        self._check(ctx, 'volume:get_all')
        return self._backend.list(ctx, limit, offset)

    def create(self, ctx: RequestContext, size: int | None, *, name: str = '', description: str | None = '',
               image_id: str | None = None, snapshot_id: str | None = None, volume_type: str | None = None,
               availability_zone: str | None = None, metadata: dict[str, str] | None = None) -> api.Volume:
        self.check_create(ctx, image_id=image_id, snapshot_id=snapshot_id, volume_type=volume_type)
        return self._backend.create(
            ctx, size, name=name, description=description, image_id=image_id, snapshot_id=snapshot_id,
            volume_type=volume_type, availability_zone=availability_zone, metadata=metadata,
            may_share=self._allows(ctx, types.MULTIATTACH))

    def check_create(self, ctx: RequestContext, *, image_id: str | None = None, snapshot_id: str | None = None,
                     volume_type: str | None = None) -> None:
        self._check(ctx, 'volume:create')
        if image_id:
            self._check(ctx, 'volume:create_from_image')
        if not self._allows(ctx, types.MULTIATTACH):
            if snapshot_id and not volume_type:
                snapshot = self._backend.get_snapshot(ctx, snapshot_id)
                inherited = self._backend.get(ctx, snapshot['volume_id'])['volume_type']
                kind = self._backend.types.find(inherited, ALL_PROJECTS)
            else:
                kind = self._backend.types.of_new(volume_type, ctx)
            if types.is_multiattach(kind):
                raise exception.PolicyDenied(rule=types.MULTIATTACH)

    def delete(self, ctx: RequestContext, volume_id: str) -> None:
        self._check(ctx, 'volume:delete', t.volumes, volume_id)
        self._backend.delete(ctx, volume_id)

    def check_type(self, ctx: RequestContext, name: str) -> None:
        self._check(ctx, 'volume_extension:type_get')
        self._backend.check_type(ctx, name)

    def check_reimage(self, ctx: RequestContext, volume_id: str) -> None:
        for rule in ('volume:reimage', 'volume:reimage_reserved'):
            self._check(_as_service(ctx), rule, t.volumes, volume_id)

    # ---- attachments

    def attach(self, ctx: RequestContext, volume_id: str, instance_uuid: str) -> str:
        caller = _as_service(ctx)
        for rule in _ATTACH:
            self._check(caller, rule, t.volumes, volume_id)
        if not self._allows(caller, 'volume:multiattach_bootable_volume', t.volumes, volume_id):
            volume = self._backend.get(ctx, volume_id)
            if volume['multiattach'] and volume['bootable'] and volume['attachments']:
                raise exception.PolicyDenied(rule='volume:multiattach_bootable_volume')
        return self._backend.attach(ctx, volume_id, instance_uuid)

    def complete(self, ctx: RequestContext, attachment_id: str) -> None:
        self._backend.complete(ctx, attachment_id)

    def detach(self, ctx: RequestContext, attachment_id: str) -> None:
        self._backend.detach(ctx, attachment_id)

    def begin_detaching(self, ctx: RequestContext, volume_id: str) -> None:
        self._check(_as_service(ctx), _ACTION + 'begin_detaching', t.volumes, volume_id)
        self._backend.begin_detaching(ctx, volume_id)

    def check_detach(self, ctx: RequestContext, volume_id: str) -> None:
        self._check(_as_service(ctx), 'volume:attachment_delete', t.volumes, volume_id)

    def roll_detaching(self, ctx: RequestContext, volume_id: str) -> None:
        self._backend.roll_detaching(ctx, volume_id)

    def attachments_of(self, ctx: RequestContext, instance_uuid: str,
                       volume_id: str | None = None) -> Sequence[str]:
        return self._backend.attachments_of(ctx, instance_uuid, volume_id)

    # ---- snapshots

    def get_snapshot(self, ctx: RequestContext, snapshot_id: str) -> api.Snapshot:
        self._check(ctx, 'volume:get_snapshot', t.volume_snapshots, snapshot_id)
        return self._backend.get_snapshot(ctx, snapshot_id)

    def list_snapshots(self, ctx: RequestContext, limit: int, offset: int = 0) -> Sequence[api.Snapshot]:
        self._check(ctx, 'volume:get_all_snapshots')
        return self._backend.list_snapshots(ctx, limit, offset)

    def create_snapshot(self, ctx: RequestContext, volume_id: str, name: str | None,
                        description: str | None = '') -> api.Snapshot:
        self.check_create_snapshot(ctx, volume_id)
        return self._backend.create_snapshot(ctx, volume_id, name, description)

    def check_create_snapshot(self, ctx: RequestContext, volume_id: str) -> None:
        self._check(ctx, 'volume:create_snapshot', t.volumes, volume_id)

    def delete_snapshot(self, ctx: RequestContext, snapshot_id: str) -> None:
        self._check(ctx, 'volume:delete_snapshot', t.volume_snapshots, snapshot_id)
        self._backend.delete_snapshot(ctx, snapshot_id)

    # ---- rules

    def _check(self, ctx: RequestContext, rule: str, table: Table | None = None, ident: str = '') -> None:
        """Check a rule for a row of a table, or, without a table, for a resource of the caller's project.

        :raises PolicyDenied:
        """
        if not self._allows(ctx, rule, table, ident):
            raise exception.PolicyDenied(rule=rule)

    def _allows(self, ctx: RequestContext, rule: str, table: Table | None = None, ident: str = '') -> bool:
        return self._rules.allows(ctx, rule, self._target(ctx, rule, table, ident))

    def _target(self, ctx: RequestContext, rule: str, table: Table | None, ident: str) -> policy.Target:
        """Return the owner of a resource, or the caller if the caller cannot see the resource."""
        own = {'project_id': ctx.project_id, 'user_id': ctx.user_id}
        if table is None or not ctx.is_admin and self._rules.compares(rule) <= {'project_id'}:
            return own
        with self._backend.db.reader() as conn:
            found = db.owner(conn, table, ident[:64])
        return found if found and (ctx.is_admin or found['project_id'] == ctx.project_id) else own


def _as_service(ctx: RequestContext) -> RequestContext:
    """Return a context of the caller that also has the role service."""
    if SERVICE in ctx.roles:
        return ctx
    caller = copy.copy(ctx)
    caller.roles = [*ctx.roles, SERVICE]
    return caller
