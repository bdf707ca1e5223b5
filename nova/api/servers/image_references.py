"""Kernel and ramdisk: images that an image, or the volume that a server boots from, names in its properties.

Anybody can write any id into the properties of an image of his own. So each is looked up as who asks, like an id in the
body of the request; what a host fetches later is what was found here.
"""
from nova import exception
from nova.api.servers import category as server_category
from nova.image import fields


def check(req, properties, context=None):
    """Look up the images that properties name.

    :param properties: {name: value} of an image, or of the image that a volume was made of
    :param context: who asks for them, unless the caller
    :raises BadRequest: one of them is not there for who asks, or has no data
    """
    for image_id in named(properties):
        try:
            image = (req.services.images.show(context, image_id) if context
                     else server_category.find_image(req, image_id))
        except exception.ImageNotFound as error:
            raise exception.BadRequest(error.message) from None
        if image['status'] != 'active':
            raise exception.ImageInactive(image_id=image_id)


def named(properties):
    """Ids of the images that properties name."""
    return [properties[name] for name in fields.REFERENCES if (properties or {}).get(name)]


def found(req, properties):
    """The properties without those that name an image which is not there for the caller (any more)."""
    lost = set()
    for name in fields.REFERENCES:
        try:
            if properties.get(name):
                server_category.find_image(req, properties[name])
        except exception.ImageNotFound:
            lost.add(name)
    return {name: value for name, value in properties.items() if name not in lost}
