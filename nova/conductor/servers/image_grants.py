"""Image grants: the conductor decides which images of a server a compute task may read and write.

The grant of a task is valid for one host and a limited time. Each start of a task, also a repeated one, makes a new
grant.
"""
import collections.abc
import typing

from nova import actions
from nova import context
from nova import objects
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Connection
from nova.conductor.cell_services import Context
from nova.db.servers import instance_actions
from nova.image import fields
from nova.image import granted
from nova.image import grants
from nova.objects.instance import SHELVED_IMAGE

PARTS = 'image_parts'                   # key in the arguments of a rescue: ids of the rescue image's kernel and ramdisk

# events of tasks that build a guest from the server's own images, or from its shelved image
_BUILDING = frozenset({'compute_build_instance', 'compute_rebuild_instance', 'compute_finish_resize',
                       'compute_unshelve_instance'})
# events of tasks that use an image in the arguments of their action: one to upload to, or one to rescue from
_BY_ACTION = frozenset({'compute_snapshot_instance', 'compute_backup_instance', 'compute_shelve_instance',
                        'compute_rescue_instance'})


class ImageGrants:
    """Makes image grants."""

    def __init__(self, services: CellServices) -> None:
        self._images, self._conf = services.images, services.conf

    def of_task(self, conn: Connection, instance: objects.Instance, event: str, owner: str) -> str | None:
        """Return the grant of a task as text, or None for a task that uses no image.

        :param conn: connection to the server's cell
        :param owner: owner of the action, 'compute:<host>'
        """
        arguments: dict[str, typing.Any] = {}
        if event in _BUILDING:
            read = [instance.image_id, *(getattr(instance, name) for name in fields.REFERENCES)]
            write = [instance.system_metadata.get(SHELVED_IMAGE)]
        elif event in _BY_ACTION:
            action = instance_actions.open_of_many(conn, [instance.uuid]).get(instance.uuid)
            arguments = action and action['arguments'] or {}
            named = [arguments.get('image_id'), *arguments.get(PARTS, ())]
            # the host chooses the event, so the event does not decide whether the host may write the image
            creates = action is not None and action['action'] in actions.IMAGE_CREATING
            read, write = ([], named) if creates else (named, [])
        else:
            return None
        return self._images.grant(grants.make(
            instance.uuid, owner.removeprefix('compute:'), self._conf.conductor.task_timeout, read, write,
            rotate=arguments.get('rotation') is not None))

    def of_arrival(self, instance: objects.Instance, host: str) -> str:
        """Return the grant with which a live migration's destination reads the images of the guest's disks."""
        read = [instance.image_id, *(getattr(instance, name) for name in fields.REFERENCES)]
        return self._images.grant(grants.make(instance.uuid, host, self._conf.conductor.task_timeout, read, ()))

    def images_of(self, ctx: Context | None, server: str, read: collections.abc.Iterable[str | None] = (),
                  write: collections.abc.Iterable[str | None] = ()) -> granted.BoundImages:
        """Return an image client for the conductor that has access only to these images of a server.

        :param ctx: context of the current request
        :param server: uuid of the server
        """
        text = self._images.grant(grants.make(server, None, self._conf.conductor.task_timeout, read, write))
        return granted.BoundImages(granted.GrantedImages(self._images), (ctx or context.admin_context()).granted(text))
