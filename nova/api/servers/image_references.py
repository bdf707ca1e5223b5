"""Kernel and ramdisk: images that an image, or the volume that a server boots from, names in its properties.

A user can write any id into the properties of an image of his own. So each is looked up for the caller, like an id in
the body of the request; what a host fetches later is what was found here.
"""
import collections.abc
import typing

from nova import context as nova_context
from nova import exception
from nova.api import request as api_request
from nova.api.servers import category as server_category
from nova.image import fields

Properties = dict[str, typing.Any]


def read(req: api_request.Request, properties: Properties, context: nova_context.RequestContext | None = None
         ) -> list[dict[str, typing.Any]]:
    """The images that properties name.

    :param properties: {name: value} of an image, or of the image that a volume was made of
    :param context: whose request it counts as; None: the caller's
    :raises BadRequest: one of them is not there for the caller
    """
    try:
        return [req.services.images.show(context, image_id) if context
                else server_category.find_image(req, image_id) for image_id in named(properties)]
    except exception.ImageNotFound as error:
        raise exception.BadRequest(error.message) from None


def check_active(images: collections.abc.Iterable[dict[str, typing.Any]]) -> None:
    """:raises ImageInactive: one of them has no data"""
    for image in images:
        if image['status'] != 'active':
            raise exception.ImageInactive(image_id=image['id'])


def check(req: api_request.Request, properties: Properties) -> None:
    """Look up the images that properties name.

    :raises BadRequest: one of them is not there for the caller, or has no data
    """
    check_active(read(req, properties))


def named(properties: Properties | None) -> list[str]:
    """Ids of the images that properties name."""
    given = properties or {}
    return [given[name] for name in fields.REFERENCES if given.get(name)]


def found(req: api_request.Request, properties: Properties) -> Properties:
    """The properties without those that name an image which is not there for the caller (any more)."""
    lost: set[str] = set()
    for name in fields.REFERENCES:
        try:
            if properties.get(name):
                server_category.find_image(req, properties[name])
        except exception.ImageNotFound:
            lost.add(name)
    return {name: value for name, value in properties.items() if name not in lost}
