"""Interface to block storage; the backends are the embedded block storage and Cinder.

A volume is a dict: 'id', 'name', 'description', 'project_id', 'status', 'size' (GiB), 'bootable', 'multiattach',
'volume_type', 'encrypted', 'availability_zone', 'image_metadata' ({name: text}), 'migration_status' and 'attachments'
([{'id', 'instance_uuid', 'device', 'host'}]). A snapshot is a dict: 'id', 'name', 'volume_id', 'project_id', 'status'
and 'size'.

An attachment connects a volume to a server. Creating it reserves the volume or fails, which decides races. Updating it
with the host's connector returns the connection. Then it is completed, and finally deleted.
"""
from __future__ import annotations

from typing import Any
from typing import TYPE_CHECKING

from oslo_config.cfg import ConfigOpts

from nova import exception

if TYPE_CHECKING:
    from nova.context import RequestContext

# encryption providers; the second is an old name of the first
LUKS = ('luks', 'nova.volume.encryptors.luks.LuksEncryptor')
# Encryption of nova-volume's volumes: the key's owner, and the action that returns the passphrase to services.
KEEPER, BLOCK_STORAGE, PASSPHRASE = 'nova:key_keeper', 'block-storage', 'nova:passphrase'


class BlockStorage:
    """Interface of a backend. Volumes that the caller (``ctx``) may not see raise VolumeNotFound."""

    keeps_chains = False         # whether the hypervisor creates and merges files of its volumes (backing chains)

    @classmethod
    def new(cls, conf: ConfigOpts, api_db: Any, images: Any) -> BlockStorage:
        """Create the backend for a deployment.

        :param api_db: the API database
        :param images: nova.image.api.Images
        """
        return cls()

    def get(self, ctx: RequestContext, volume_id: str) -> Any:
        """Return one volume; raises VolumeNotFound."""
        raise NotImplementedError

    def list(self, ctx: RequestContext, limit: int, offset: int = 0) -> Any:
        """List the project's volumes, newest first, also with 'created_at', 'metadata' and 'snapshot_id'."""
        raise NotImplementedError

    def create(self, ctx: RequestContext, size: int, *, name: str = '', description: str = '',
               image_id: str | None = None, snapshot_id: str | None = None, volume_type: Any = None,
               availability_zone: Any = None, metadata: Any = None) -> Any:
        """Start the creation of a volume and return it; it is usable when its status is 'available'.

        :param size: GiB; None with a snapshot: the snapshot's size
        :raises BadRequest, Forbidden, ImageNotFound, VolumeSnapshotNotFound, VolumeTypeNotFound:
        """
        raise NotImplementedError

    def delete(self, ctx: RequestContext, volume_id: str) -> Any:
        """Delete a volume; raises VolumeNotFound, InvalidVolume (in use)."""
        raise NotImplementedError

    def check_type(self, ctx: RequestContext, name: str) -> Any:
        """Check that a type with this name or id exists; raises VolumeTypeNotFound."""
        raise NotImplementedError

    def reimage(self, ctx: RequestContext, volume_id: str, image_id: str) -> Any:
        """Start writing an image to a reserved volume; done when its status is 'reserved' again."""
        raise NotImplementedError

    # ---- attachments

    def attach(self, ctx: RequestContext, volume_id: str, instance_uuid: str) -> Any:
        """Reserve a volume for a server and return the attachment's id.

        A server may have several attachments of one volume during a migration.

        :raises VolumeNotFound, InvalidVolume: it is not available
        """
        raise NotImplementedError

    def renew(self, ctx: RequestContext, volume_id: str, instance_uuid: str, held: str | None) -> Any:
        """Reserve a volume again for a server, before attachment ``held`` is deleted; return the new attachment's id.

        The volume stays attached throughout, even if no host has completed ``held``.

        :raises VolumeNotFound, InvalidVolume:
        """
        return self.attach(ctx, volume_id, instance_uuid)

    def attach_elsewhere(self, ctx: RequestContext, volume_id: str, instance_uuid: str, held: str | None,
                         connector: Any, device: Any) -> tuple[Any, Any]:
        """Attach a volume to a second host during a server's migration; return (attachment id, connection).

        After a failure ``held`` is the server's only attachment.

        :raises VolumeNotFound, InvalidVolume:
        """
        made = self.attach(ctx, volume_id, instance_uuid)
        try:
            return made, self.connect(ctx, made, connector, device)
        except Exception:
            self.detach(ctx, made)
            raise

    def connect(self, ctx: RequestContext, attachment_id: str, connector: Any, device: Any) -> Any:
        """Connect a host to the volume and return the connection: {'driver_volume_type', 'data', 'host'}.

        :param connector: the result of virt.driver.Volumes.volume_connector
        :raises VolumeAttachmentNotFound, InvalidVolume:
        """
        raise NotImplementedError

    def complete(self, ctx: RequestContext, attachment_id: str) -> Any:
        """Complete an attachment: the volume is 'in-use'."""
        raise NotImplementedError

    def passphrase(self, ctx: RequestContext, volume_id: str) -> str:
        """Return the LUKS passphrase of an encrypted volume.

        :param ctx: context of the owner's request, with a token
        :raises InvalidVolume: the key is not available, or the volume uses another encryption
        """
        raise exception.InvalidVolume(reason='this block storage does not support encrypted volumes.')

    def detach(self, ctx: RequestContext, attachment_id: str) -> Any:
        """Delete an attachment; idempotent."""
        raise NotImplementedError

    def begin_detaching(self, ctx: RequestContext, volume_id: str) -> Any:
        """Reserve a volume for detaching; raises InvalidVolume if it is not in use, or already detaching."""
        raise NotImplementedError

    def roll_detaching(self, ctx: RequestContext, volume_id: str) -> Any:
        """Revert begin_detaching: the volume is in use."""
        raise NotImplementedError

    def attachments_of(self, ctx: RequestContext, instance_uuid: str) -> Any:
        """Return the ids of a server's attachments."""
        raise NotImplementedError

    # ---- snapshots

    def get_snapshot(self, ctx: RequestContext, snapshot_id: str) -> Any:
        """Return one snapshot; raises VolumeSnapshotNotFound."""
        raise NotImplementedError

    def list_snapshots(self, ctx: RequestContext, limit: int, offset: int = 0) -> Any:
        """List the project's snapshots, newest first, also with 'description' and 'created_at'."""
        raise NotImplementedError

    def create_snapshot(self, ctx: RequestContext, volume_id: str, name: str, description: str = '') -> Any:
        """Start a snapshot of a volume, which may be in use, and return it."""
        raise NotImplementedError

    def delete_snapshot(self, ctx: RequestContext, snapshot_id: str) -> Any:
        """Delete a snapshot; idempotent."""
        raise NotImplementedError

    def update_snapshot_status(self, ctx: RequestContext, snapshot_id: str, status: Any, progress: Any) -> None:
        """Report the progress of a snapshot made by a compute host. Backends with their own snapshots ignore it."""

    def complete_migration(self, ctx: RequestContext, volume_id: str, new_volume_id: str, failed: bool) -> str:
        """Finish a swap requested by the block storage; return the id of the remaining volume."""
        return new_volume_id


class NoVolumes(BlockStorage):
    """Backend of a deployment without block storage: no volume exists or can be created."""

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
