"""Request to a handler of the Image API."""
from __future__ import annotations

import typing
from wsgiref.types import WSGIEnvironment

from nova.web.request import BaseRequest

if typing.TYPE_CHECKING:
    from nova.image.embedded.metadefs import Metadefs
    from nova.image.embedded.service import Store


class ImageRequest(BaseRequest):
    """Request to a handler; ``store`` contains the images, ``metadefs`` the metadata definitions."""

    __slots__ = ('metadefs', 'store')

    def __init__(self, environ: WSGIEnvironment, store: Store, definitions: Metadefs) -> None:
        super().__init__(environ)
        self.store, self.metadefs = store, definitions
