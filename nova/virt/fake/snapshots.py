"""Snapshots of fake guests."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nova import states
from nova.runtime import progress

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.objects.instance import Instance
    from nova.virt import driver
    from nova.virt.fake.machine import Machine


class Snapshot:
    """Upload a small disk as the data of an image."""

    def __init__(self, machine: Machine, images: driver.ImageSource) -> None:
        self.machine, self._images = machine, images

    def snapshot(self, context: RequestContext, instance: Instance, image_id: str, step: Callable[[str], None],
                 report: progress.Report = progress.ignore) -> None:
        with self.machine.operation('snapshot', report):
            self.machine.guest(instance)
            step(states.IMAGE_PENDING_UPLOAD)
            with self.machine.disk() as path:
                step(states.IMAGE_UPLOADING)
                self._images.upload(context, image_id, path, 'raw')
