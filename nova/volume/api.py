"""Interface to block storage. The backends are the embedded block storage and Cinder.

An attachment connects a volume to a server. ``attach`` creates the attachment and reserves the volume; if several
calls run concurrently, one succeeds. ``connect`` sends the host's connector and returns the connection. ``complete``
marks the volume as in use. ``detach`` deletes the attachment.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
import datetime
from typing import NoReturn, Protocol, TYPE_CHECKING, TypeAlias, TypedDict

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.context import RequestContext
from nova.db.engine import Database
from nova.json_types import Json
from nova.json_types import JsonObject
from nova.objects.image import Image
from nova.objects.image import ImageValues

if TYPE_CHECKING:
    from typing_extensions import ReadOnly

# names of the encryption provider LUKS: current and old
LUKS = ('luks', 'nova.volume.encryptors.luks.LuksEncryptor')
# field of an encrypted volume: the service that keeps its key; value of this field for nova-volume
KEEPER, BLOCK_STORAGE = 'nova:key_keeper', 'block-storage'
PASSPHRASE = 'nova:passphrase'         # action that returns the passphrase of a volume


Connector: TypeAlias = Mapping[str, Json]       # properties of a host: 'host', 'ip', 'initiator', …


class Attachment(TypedDict):
    """An attachment in the field ``attachments`` of a volume."""

    id: ReadOnly[str | None]
    instance_uuid: ReadOnly[str | None]
    device: ReadOnly[str | None]
    host: ReadOnly[str | None]


class Volume(TypedDict):
    """A volume.

    size            size in GiB
    image_metadata  {name: text}
    created_at      naive UTC, or the text that the Block Storage API returned
    """

    id: ReadOnly[str]
    name: ReadOnly[str | None]
    description: ReadOnly[str | None]
    project_id: ReadOnly[str | None]
    status: ReadOnly[str]
    size: ReadOnly[int]
    bootable: ReadOnly[bool]
    multiattach: ReadOnly[bool]
    volume_type: ReadOnly[str | None]
    encrypted: ReadOnly[bool]
    availability_zone: ReadOnly[str | None]
    metadata: ReadOnly[dict[str, str]]
    image_metadata: ReadOnly[dict[str, str]]
    snapshot_id: ReadOnly[str | None]
    migration_status: ReadOnly[str | None]
    created_at: ReadOnly[datetime.datetime | str | None]
    attachments: ReadOnly[Sequence[Attachment]]


class Snapshot(TypedDict):
    """A snapshot; size and created_at as in a volume."""

    id: ReadOnly[str]
    name: ReadOnly[str | None]
    description: ReadOnly[str | None]
    volume_id: ReadOnly[str]
    project_id: ReadOnly[str | None]
    status: ReadOnly[str]
    size: ReadOnly[int]
    created_at: ReadOnly[datetime.datetime | str | None]


class Connection(TypedDict):
    """Data with which a host connects to a volume; ``host`` is the host name in the connector."""

    driver_volume_type: str | None
    data: JsonObject
    host: Json


class Images(Protocol):
    """The methods of nova.image.api.Images that the block storage uses."""

    in_place: bool

    def show(self, ctx: RequestContext, image_id: str) -> Image:
        """Return one image."""

    def check_download(self, ctx: RequestContext, image: Image) -> None:
        """Check that the caller may download the data of an image."""

    def create(self, ctx: RequestContext, values: ImageValues) -> Image:
        """Create an image without data."""

    def update(self, ctx: RequestContext, image_id: str, values: ImageValues) -> Image:
        """Update an image."""

    def delete(self, ctx: RequestContext, image_id: str) -> None:
        """Delete an image."""

    def upload(self, ctx: RequestContext, image_id: str, path: str, disk_format: str) -> None:
        """Upload a file as the data of an image."""

    def readable(self, ctx: RequestContext, image_id: str, path: str,
                 group: int | None = None) -> AbstractContextManager[str]:
        """Context manager: path of a file with the data of an image."""

    def check_header(self, path: str, disk_format: str) -> None:
        """Check the header of an image file that a guest's QEMU has written."""


class BlockStorage:
    """Interface of a backend. Methods raise VolumeNotFound for volumes that the caller (``ctx``) may not see."""

    @property
    def keeps_chains(self) -> bool:
        """Whether hypervisors create and merge files of the volumes (backing chains)."""
        return False

    @classmethod
    def new(cls, conf: ConfigOpts, api_db: Database, images: Images) -> BlockStorage:
        """Create the backend for a deployment.

        :param api_db: the API database
        """
        return cls()

    def get(self, ctx: RequestContext, volume_id: str) -> Volume:
        """Return one volume; raises VolumeNotFound."""
        raise NotImplementedError

    def list(self, ctx: RequestContext, limit: int, offset: int = 0) -> Sequence[Volume]:
        """List the project's volumes, newest first."""
        raise NotImplementedError

    def create(self, ctx: RequestContext, size: int | None, *, name: str = '', description: str | None = '',
               image_id: str | None = None, snapshot_id: str | None = None, volume_type: str | None = None,
               availability_zone: str | None = None, metadata: dict[str, str] | None = None) -> Volume:
        """Start the creation of a volume and return it; the volume is usable when its status is 'available'.

        :param size: GiB; None with a snapshot: the snapshot's size
        :raises BadRequest, Forbidden, ImageNotFound, VolumeSnapshotNotFound, VolumeTypeNotFound:
        """
        raise NotImplementedError

    def check_create(self, ctx: RequestContext, *, image_id: str | None = None, snapshot_id: str | None = None,
                     volume_type: str | None = None) -> None:
        """Check that the caller may create a volume of this image, snapshot or type; raises PolicyDenied."""

    def delete(self, ctx: RequestContext, volume_id: str) -> None:
        """Delete a volume; raises VolumeNotFound, InvalidVolume (in use)."""
        raise NotImplementedError

    def check_type(self, ctx: RequestContext, name: str) -> None:
        """Check that a type with this name or id exists; raises VolumeTypeNotFound."""
        raise NotImplementedError

    def check_reimage(self, ctx: RequestContext, volume_id: str) -> None:
        """Check that the caller may write images to the root volume of a server; raises PolicyDenied."""

    def reimage(self, ctx: RequestContext, volume_id: str, image_id: str) -> None:
        """Start writing an image to a reserved volume. At the end the volume's status is 'reserved' again."""
        raise NotImplementedError

    # ---- attachments

    def attach(self, ctx: RequestContext, volume_id: str, instance_uuid: str) -> str:
        """Reserve a volume for a server and return the attachment's id.

        A server may have several attachments of one volume during a migration.

        :raises VolumeNotFound, InvalidVolume: the volume is not available
        """
        raise NotImplementedError

    def renew(self, ctx: RequestContext, volume_id: str, instance_uuid: str, held: str | None) -> str:
        """Create a second attachment that replaces ``held``; the caller deletes ``held`` later. Return the new id.

        The volume stays attached throughout. ``held`` may be an attachment that ``complete`` has not completed yet.

        :raises VolumeNotFound, InvalidVolume:
        """
        return self.attach(ctx, volume_id, instance_uuid)

    def attach_elsewhere(self, ctx: RequestContext, volume_id: str, instance_uuid: str, held: str | None,
                         connector: Connector, device: str | None) -> tuple[str, Connection]:
        """Attach a volume to a second host during a server's migration; return (attachment id, connection).

        On failure the new attachment is removed, and ``held`` remains.

        :raises VolumeNotFound, InvalidVolume:
        """
        made = self.attach(ctx, volume_id, instance_uuid)
        try:
            return made, self.connect(ctx, made, connector, device)
        except Exception:
            self.detach(ctx, made)
            raise

    def connect(self, ctx: RequestContext, attachment_id: str, connector: Connector, device: str | None) -> Connection:
        """Connect a host to the volume and return the connection.

        :param connector: the result of virt.driver.Volumes.volume_connector
        :raises VolumeAttachmentNotFound, InvalidVolume:
        """
        raise NotImplementedError

    def complete(self, ctx: RequestContext, attachment_id: str) -> None:
        """Complete an attachment: the status of the volume becomes 'in-use'."""
        raise NotImplementedError

    def passphrase(self, ctx: RequestContext, volume_id: str) -> str:
        """Return the LUKS passphrase of an encrypted volume.

        :param ctx: context of the owner's request, with a token
        :raises InvalidVolume: the key is not available, or the volume uses another encryption
        """
        raise exception.InvalidVolume(reason='this block storage does not support encrypted volumes.')

    def detach(self, ctx: RequestContext, attachment_id: str) -> None:
        """Delete an attachment; idempotent."""
        raise NotImplementedError

    def check_detach(self, ctx: RequestContext, volume_id: str) -> None:
        """Check that the caller may delete attachments of a volume; raises PolicyDenied."""

    def begin_detaching(self, ctx: RequestContext, volume_id: str) -> None:
        """Reserve a volume for detaching; raises InvalidVolume if the volume is detaching already, or not in use."""
        raise NotImplementedError

    def roll_detaching(self, ctx: RequestContext, volume_id: str) -> None:
        """Revert begin_detaching: the status of the volume is 'in-use' again."""
        raise NotImplementedError

    def attachments_of(self, ctx: RequestContext, instance_uuid: str,
                       volume_id: str | None = None) -> Sequence[str]:
        """Return the ids of a server's attachments; with ``volume_id`` only those of this volume."""
        raise NotImplementedError

    # ---- snapshots

    def get_snapshot(self, ctx: RequestContext, snapshot_id: str) -> Snapshot:
        """Return one snapshot; raises VolumeSnapshotNotFound."""
        raise NotImplementedError

    def list_snapshots(self, ctx: RequestContext, limit: int, offset: int = 0) -> Sequence[Snapshot]:
        """List the project's snapshots, newest first."""
        raise NotImplementedError

    def create_snapshot(self, ctx: RequestContext, volume_id: str, name: str | None,
                        description: str | None = '') -> Snapshot:
        """Start a snapshot of a volume, which may be in use; return the snapshot."""
        raise NotImplementedError

    def check_create_snapshot(self, ctx: RequestContext, volume_id: str) -> None:
        """Check that the caller may create snapshots of a volume; raises PolicyDenied."""

    def delete_snapshot(self, ctx: RequestContext, snapshot_id: str) -> None:
        """Delete a snapshot; idempotent."""
        raise NotImplementedError

    def update_snapshot_status(self, ctx: RequestContext, snapshot_id: str, status: str,
                               progress: str | None) -> None:
        """Report a compute host's progress on a snapshot; backends that create every snapshot themselves do nothing."""

    def complete_migration(self, ctx: RequestContext, volume_id: str, new_volume_id: str, failed: bool) -> str:
        """Finish a swap of two volumes that the block storage requested; return the id of the volume that remains."""
        return new_volume_id


class NoVolumes(BlockStorage):
    """Backend of a deployment without block storage: no volume exists or can be created."""

    def get(self, ctx: RequestContext, volume_id: str) -> NoReturn:
        raise exception.VolumeNotFound(volume_id=volume_id)

    def list(self, ctx: RequestContext, limit: int, offset: int = 0) -> Sequence[Volume]:
        return []

    def list_snapshots(self, ctx: RequestContext, limit: int, offset: int = 0) -> Sequence[Snapshot]:
        return []

    def create(self, ctx: RequestContext, size: int | None, **kwargs: object) -> NoReturn:
        raise exception.InvalidVolume(reason='this deployment has no block storage.')

    def check_type(self, ctx: RequestContext, name: str) -> NoReturn:
        raise exception.VolumeTypeNotFound(name=name)

    def get_snapshot(self, ctx: RequestContext, snapshot_id: str) -> NoReturn:
        raise exception.VolumeSnapshotNotFound(snapshot_id=snapshot_id)

    def detach(self, ctx: RequestContext, attachment_id: str) -> None:
        pass

    def attachments_of(self, ctx: RequestContext, instance_uuid: str,
                       volume_id: str | None = None) -> Sequence[str]:
        return []
