"""What travels: plain JSON, versioned objects, datetimes and bytes; everything else is a TypeError at the sender.

An argument is copied on its way, also inside one process: sender and receiver never share anything mutable.
"""
import base64
import datetime

import oslo_messaging
import orjson
from oslo_versionedobjects import base

from nova import context as nova_context
from nova import objects

TIME = 'nova_time'                  # {TIME: ISO 8601}: a naive UTC datetime
BYTES = 'nova_bytes'                # {BYTES: base64}
OBJECT = f'{objects.NovaObject.OBJ_SERIAL_NAMESPACE}.name'

_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_NON_STR_KEYS


def _tag(value):
    """A JSON-able stand-in for what JSON lacks."""
    if isinstance(value, base.VersionedObject):
        return value.obj_to_primitive()
    if isinstance(value, datetime.datetime):
        return {TIME: value.isoformat()}
    if isinstance(value, bytes):
        return {BYTES: base64.b64encode(value).decode()}
    raise TypeError(f'A {type(value).__name__} does not travel between services.')


def to_primitive(value):
    """A deep copy of ``value`` in which only JSON types are left.

    :raises TypeError: something in it is none of what may travel
    """
    try:
        return orjson.loads(orjson.dumps(value, default=_tag, option=_OPTIONS))
    except orjson.JSONEncodeError as error:
        raise error.__cause__ if isinstance(error.__cause__, TypeError) else TypeError(str(error)) from None


def from_primitive(value, context=None):
    """The opposite of ``to_primitive``; takes the value over and may change it."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, (dict, list)):
                value[index] = from_primitive(item, context)
    elif isinstance(value, dict):
        if len(value) == 1:
            (tag, content), = value.items()
            if tag == TIME:
                return datetime.datetime.fromisoformat(content)
            if tag == BYTES:
                return base64.b64decode(content)
        for key, item in value.items():
            if isinstance(item, (dict, list)):
                value[key] = from_primitive(item, context)
        if OBJECT in value:
            return objects.NovaObject.obj_from_primitive(value, context=context)
    return value


class Serializer(oslo_messaging.Serializer):
    """Entities as above; the context as its dictionary, so that request ids go along."""

    def serialize_entity(self, ctxt, entity):
        return to_primitive(entity)

    def deserialize_entity(self, ctxt, entity):
        return from_primitive(entity, ctxt)

    def serialize_context(self, ctxt):
        return ctxt.to_dict()

    def deserialize_context(self, ctxt):
        """The sender's context; it becomes the one of this thread, for its log lines."""
        return nova_context.RequestContext.from_dict(ctxt)
