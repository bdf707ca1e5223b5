"""What the rest of the system needs of volumes: one interface, the embedded block storage or Cinder behind it.

A volume is a dict: 'id', 'name', 'description', 'project_id', 'status', 'size' (GiB), 'bootable', 'multiattach',
'volume_type', 'encrypted', 'availability_zone', 'image_metadata' ({name: text}), 'migration_status' and 'attachments'
([{'id', 'instance_uuid', 'device', 'host'}]). A snapshot is one of 'id', 'name', 'volume_id',
'project_id', 'status' and 'size'.

An attachment is a server's hold on a volume: made (the volume is reserved, or it is refused: that decides every
race), updated with the host's connector (which gives the connection), complete, and deleted.
"""
from __future__ import annotations

from typing import Any
from typing import TYPE_CHECKING

from oslo_config.cfg import ConfigOpts

from nova import exception

if TYPE_CHECKING:
    from nova.context import RequestContext

LUKS = ('luks', 'nova.volume.encryptors.luks.LuksEncryptor')     # providers; the second is an old name of the first
# Of the encryption of a volume that nova-volume has: who keeps its key, and the action that gives it to services.
KEEPER, BLOCK_STORAGE, PASSPHRASE = 'nova:key_keeper', 'block-storage', 'nova:passphrase'


class BlockStorage:
    """The interface. ``ctx`` is who asks: what it may not see raises VolumeNotFound."""

    keeps_chains = False         # whether it lets the hypervisor make and merge files of its volumes, which it follows

    @classmethod
    def new(cls, conf: ConfigOpts, api_db: Any, images: Any) -> BlockStorage:
        """The backend for a deployment.

        :param api_db: Database of what all cells share
        :param images: nova.image.api.Images
        """
        return cls()

    def get(self, ctx: RequestContext, volume_id: str) -> Any:
        """One volume; raises VolumeNotFound."""
        raise NotImplementedError

    def list(self, ctx: RequestContext, limit: int, offset: int = 0) -> Any:
        """Volumes of the caller's project, newest first; in addition to what ``get`` has 'created_at', 'metadata' and
        'snapshot_id'."""
        raise NotImplementedError

    def create(self, ctx: RequestContext, size: int, *, name: str = '', description: str = '',
               image_id: str | None = None, snapshot_id: str | None = None, volume_type: Any = None,
               availability_zone: Any = None, metadata: Any = None) -> Any:
        """Begin to make a volume and return it; it is usable when its status is 'available'.

        :param size: GiB; None with a snapshot: the snapshot's
        :raises BadRequest, Forbidden, ImageNotFound, VolumeSnapshotNotFound, VolumeTypeNotFound:
        """
        raise NotImplementedError

    def delete(self, ctx: RequestContext, volume_id: str) -> Any:
        """Remove a volume; raises VolumeNotFound, InvalidVolume (it is in use)."""
        raise NotImplementedError

    def check_type(self, ctx: RequestContext, name: str) -> Any:
        """:raises VolumeTypeNotFound: no type has this name or id"""
        raise NotImplementedError

    def reimage(self, ctx: RequestContext, volume_id: str, image_id: str) -> Any:
        """Begin to put an image onto a reserved volume; done when its status is 'reserved' again."""
        raise NotImplementedError

    # ---- attachments

    def attach(self, ctx: RequestContext, volume_id: str, instance_uuid: str) -> Any:
        """Reserve a volume for a server; the attachment's id.

        A server that has the volume already may have a further attachment: that is how it moves between hosts.

        :raises VolumeNotFound, InvalidVolume: it is not available
        """
        raise NotImplementedError

    def renew(self, ctx: RequestContext, volume_id: str, instance_uuid: str, held: str | None) -> Any:
        """Reserve a volume once more for a server, whose attachment ``held`` is to go; the new one's id.

        The volume is the server's all the time, also when no host has ever completed ``held``.

        :raises VolumeNotFound, InvalidVolume:
        """
        return self.attach(ctx, volume_id, instance_uuid)

    def attach_elsewhere(self, ctx: RequestContext, volume_id: str, instance_uuid: str, held: str | None,
                         connector: Any, device: Any) -> tuple[Any, Any]:
        """Let a second host reach the volume of a server that moves there; the id of an attachment and its connection.

        When it fails, ``held``, the server's attachment, is the only one that it has.

        :raises VolumeNotFound, InvalidVolume:
        """
        made = self.attach(ctx, volume_id, instance_uuid)
        try:
            return made, self.connect(ctx, made, connector, device)
        except Exception:
            self.detach(ctx, made)
            raise

    def connect(self, ctx: RequestContext, attachment_id: str, connector: Any, device: Any) -> Any:
        """Let a host reach the volume; the connection: {'driver_volume_type', 'data', 'host'}.

        :param connector: what virt.driver.Volumes.volume_connector returned
        :raises VolumeAttachmentNotFound, InvalidVolume:
        """
        raise NotImplementedError

    def complete(self, ctx: RequestContext, attachment_id: str) -> Any:
        """The server uses it now: the volume is 'in-use'."""
        raise NotImplementedError

    def passphrase(self, ctx: RequestContext, volume_id: str) -> str:
        """What opens an encrypted volume (LUKS).

        :param ctx: of a request of its owner, with a token
        :raises InvalidVolume: it cannot be had, or the volume is encrypted in another way
        """
        raise exception.InvalidVolume(reason='this block storage has no encrypted volumes.')

    def detach(self, ctx: RequestContext, attachment_id: str) -> Any:
        """Give up a hold on a volume; no error when there is none."""
        raise NotImplementedError

    def begin_detaching(self, ctx: RequestContext, volume_id: str) -> Any:
        """Reserve the right to detach; raises InvalidVolume when the volume is not in use, or being detached."""
        raise NotImplementedError

    def roll_detaching(self, ctx: RequestContext, volume_id: str) -> Any:
        """Take that back: the volume is in use."""
        raise NotImplementedError

    def attachments_of(self, ctx: RequestContext, instance_uuid: str) -> Any:
        """Ids of all attachments of a server."""
        raise NotImplementedError

    # ---- snapshots

    def get_snapshot(self, ctx: RequestContext, snapshot_id: str) -> Any:
        """One snapshot; raises VolumeSnapshotNotFound."""
        raise NotImplementedError

    def list_snapshots(self, ctx: RequestContext, limit: int, offset: int = 0) -> Any:
        """Snapshots of the caller's project, newest first, with 'description' and 'created_at'."""
        raise NotImplementedError

    def create_snapshot(self, ctx: RequestContext, volume_id: str, name: str, description: str = '') -> Any:
        """Begin a snapshot of a volume, also of one in use, and return it."""
        raise NotImplementedError

    def delete_snapshot(self, ctx: RequestContext, snapshot_id: str) -> Any:
        """Remove a snapshot; no error when there is none."""
        raise NotImplementedError

    def update_snapshot_status(self, ctx: RequestContext, snapshot_id: str, status: Any, progress: Any) -> None:
        """A snapshot whose files a compute makes or merges is so far; nothing where a storage makes its own."""

    def complete_migration(self, ctx: RequestContext, volume_id: str, new_volume_id: str, failed: bool) -> str:
        """Finish a swap that the block storage requested; return the id of the volume that stays."""
        return new_volume_id


class NoVolumes(BlockStorage):
    """A deployment without block storage: every volume is unknown, none can be made."""

    def get(self, ctx: RequestContext, volume_id: str) -> None:
        raise exception.VolumeNotFound(volume_id=volume_id)

    def list(self, ctx: RequestContext, limit: int, offset: int = 0) -> Any:
        return []

    def list_snapshots(self, ctx: RequestContext, limit: int, offset: int = 0) -> Any:
        return []

    def create(self, ctx: RequestContext, size: int, **kwargs: Any) -> None:
        raise exception.InvalidVolume(reason='this deployment has no block storage.')

    def check_type(self, ctx: RequestContext, name: str) -> None:
        raise exception.VolumeTypeNotFound(name=name)

    def get_snapshot(self, ctx: RequestContext, snapshot_id: str) -> None:
        raise exception.VolumeSnapshotNotFound(snapshot_id=snapshot_id)

    def detach(self, ctx: RequestContext, attachment_id: str) -> None:
        pass

    def attachments_of(self, ctx: RequestContext, instance_uuid: str) -> Any:
        return []
