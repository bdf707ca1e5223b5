"""The OpenAPI documents of all APIs, by the names under which they are frozen."""
import functools

from nova.api import app
from nova.api import openapi
from nova.api import versions
from nova.identity.rest import handlers as identity_handlers
from nova.identity.rest import openapi as identity_openapi
from nova.image.rest import handlers as image_handlers
from nova.image.rest import openapi as image_openapi
from nova.keymanager.rest import handlers as key_handlers
from nova.keymanager.rest import openapi as key_openapi
from nova.network.rest import app as network_app
from nova.network.rest import openapi as network_openapi
from nova.volume.rest import handlers as volume_handlers
from nova.volume.rest import openapi as volume_openapi
from nova.web import openapi as web_openapi


def _compute(minor):
    return openapi.document(app.all_routes(), minor, openapi.SPLIT)


def _plain(describer, routes):
    """The document of an API without microversions."""
    return describer.document(routes, 1)


def _block_storage(minor):
    return volume_openapi.DESCRIBER.document(volume_handlers.ROUTES, minor, web_openapi.SPLIT)


DOCUMENTS = {
    f'compute-2.{versions.MAX_VERSION}': functools.partial(_compute, versions.MAX_VERSION),
    'compute-2.1': functools.partial(_compute, 1),
    'identity-3.14': functools.partial(_plain, identity_openapi.DESCRIBER, identity_handlers.ROUTES),
    'image-2.7': functools.partial(_plain, image_openapi.DESCRIBER, image_handlers.ROUTES),
    'network-2.0': functools.partial(_plain, network_openapi.DESCRIBER, network_app.ROUTES),
    'block-storage-3.68': functools.partial(_block_storage, 68),
    'block-storage-3.0': functools.partial(_block_storage, 0),
    'key-manager-1.1': functools.partial(_plain, key_openapi.DESCRIBER, key_handlers.ROUTES)}
