"""Kernel and ramdisk references in the properties of images and boot volumes.

Users can store any ID in the properties of their images. Each reference is therefore looked up with the caller's
rights, like an ID in a request body. Hosts download only images that this lookup has found.
"""

from nova import context as nova_context
from nova import exception
from nova.api import request as api_request
from nova.api.servers import category as server_category
from nova.hardware import disks
from nova.image import fields
from nova.objects.image import Image

Properties = dict[str, str]


def read(req: api_request.Request, properties: Properties, context: nova_context.RequestContext | None = None
         ) -> list[Image]:
    """Return the kernel and ramdisk images that properties name.

    :param properties: {name: value} of an image, or of the image metadata of a volume
    :param context: context of the lookup; default: the caller's
    :raises BadRequest: an image is not visible to the caller
    """
    with exception.AsBadRequest(exception.ImageNotFound):
        return [req.services.images.show(context, image_id) if context
                else server_category.bootable_image(req, image_id) for image_id in named(properties)]


def check(req: api_request.Request, properties: Properties) -> None:
    """Check the kernel and ramdisk images that properties name.

    :raises BadRequest: an image is not visible to the caller, or has no data
    """
    for image in read(req, properties):
        disks.check_data(image)


def named(properties: Properties | None) -> list[str]:
    """Return the IDs of referenced images."""
    given = properties or {}
    return [given[name] for name in fields.REFERENCES if given.get(name)]


def found(req: api_request.Request, properties: Properties) -> Properties:
    """Return the properties without references to images that the caller may not see."""
    lost: set[str] = set()
    for name in fields.REFERENCES:
        try:
            if properties.get(name):
                server_category.find_image(req, properties[name])
        except exception.ImageNotFound:
            lost.add(name)
    return {name: value for name, value in properties.items() if name not in lost}
