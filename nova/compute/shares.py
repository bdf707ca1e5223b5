"""Shares that a stopped server gets, or gives back; its guest has them when it is started."""
from nova.compute.volumes import recorded

ATTACHED, FAILED = 'attached', 'error'


class Shares:
    """The part of the compute's manager that works on shares; mixed into it."""

    def attach_share(self, ctx, instance, share_id):
        self.queue.submit(instance.uuid, self._attach_share, ctx, instance, share_id)

    def _attach_share(self, ctx, instance, share_id):
        with recorded(), self.beside(ctx, instance, 'compute_attach_share') as current:
            which = {'instance_uuid': instance.uuid, 'share_id': share_id}
            current.undo(self.conductor.share_attached, ctx, status=FAILED, **which)
            mapping = self.conductor.allow_share(ctx, host=self.host, **which)
            current.undo(self.driver.detach_share, ctx, current.instance, mapping)
            self.driver.attach_share(ctx, current.instance, mapping)
            self.conductor.share_attached(ctx, status=ATTACHED, **which)

    def detach_share(self, ctx, instance, share_id):
        self.queue.submit(instance.uuid, self._detach_share, ctx, instance, share_id)

    def _detach_share(self, ctx, instance, share_id):
        with recorded(), self.beside(ctx, instance, 'compute_detach_share') as current:
            which = {'instance_uuid': instance.uuid, 'share_id': share_id}
            current.undo(self.conductor.share_attached, ctx, status=FAILED, **which)
            self.driver.detach_share(ctx, current.instance, {'share_id': share_id})
            current.keep()
            self.conductor.share_detached(ctx, host=self.host, **which)
