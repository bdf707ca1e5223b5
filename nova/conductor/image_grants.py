"""Which images a task of a compute may use: what the rows of its server say, which was looked up as the user who asked.

A grant is made anew with each begin of a task, so that one that is done again, hours later or on another host, has one
that is good.
"""
from nova import context
from nova.db.servers import instance_actions
from nova.image import api as image_api
from nova.image import fields
from nova.image import grants

SHELVED = 'shelved_image_id'            # key of the system metadata of a shelved server: its copy
PARTS = 'image_parts'                   # of the arguments of a rescue: kernel and ramdisk of its image, ids

# events of tasks that make a guest of the server's own images, or of the copy that it was shelved to
_BUILDING = frozenset({'compute_build_instance', 'compute_rebuild_instance', 'compute_finish_resize',
                       'compute_unshelve_instance'})
# those that use what the arguments of their action name: a copy that they make, an image to rescue from
_COPYING = frozenset({'compute_snapshot_instance', 'compute_backup_instance', 'compute_shelve_instance'})
_RESCUING = 'compute_rescue_instance'


class Granter:
    """The part of the conductor's manager that gives grants; mixed into it.

    Needs ``self._images`` and ``self._conf``.
    """

    def image_grant(self, conn, instance, event, owner):
        """The grant of a task as text, None for a task that uses no image.

        :param conn: of the server's cell
        :param instance: objects.Instance
        :param owner: of the action, 'compute:<host>'
        """
        read, write, arguments = [], [], {}
        if event in _COPYING or event == _RESCUING:
            arguments = instance_actions.arguments_of_open(conn, [instance.uuid]).get(instance.uuid) or {}
        if event in _BUILDING:
            read = [instance.image_id, *(getattr(instance, name) for name in fields.REFERENCES)]
            write = [instance.system_metadata.get(SHELVED)]
        elif event == _RESCUING:
            read = [arguments.get('image_id'), *arguments.get(PARTS, ())]
        elif event in _COPYING:
            write = [arguments.get('image_id')]
        else:
            return None
        return self._images.grant(grants.make(
            instance.uuid, owner.removeprefix('compute:'), self._conf.conductor.task_give_up, read, write,
            rotate=arguments.get('rotation') is not None))

    def _images_of(self, ctx, server, read=(), write=()):
        """Images for the conductor itself, those of one server alone: a BoundImages.

        :param ctx: of the request that is worked on, or None
        :param server: uuid
        """
        text = self._images.grant(grants.make(server, None, self._conf.conductor.task_give_up, read, write))
        return image_api.BoundImages(grants.GrantedImages(self._images), (ctx or context.admin_context()).granted(text))
