"""Serialization of messages: plain JSON, versioned objects, datetimes and bytes; anything else is a TypeError.

Arguments are copied, also within one process: sender and receiver share no mutable object.
"""
import base64
from collections.abc import Callable, Mapping, Sequence
import datetime
from typing import Any, TypeAlias

import oslo_messaging
import orjson
from oslo_versionedobjects import base
from oslo_versionedobjects import exception as object_exc

from nova import context as nova_context
from nova import exception
from nova import objects
from nova.json_types import Json
from nova.json_types import JsonObject
from nova.rpc import versions
from nova.rpc.interface import parsed

# arguments and results of methods
Value: TypeAlias = (None | bool | int | float | str | bytes | datetime.datetime | base.VersionedObject
                    | Sequence['Value'] | Mapping[str, 'Value'])
Backport: TypeAlias = Callable[[nova_context.RequestContext | None, JsonObject], JsonObject]
Manifest: TypeAlias = dict[str, str]             # {object name: version}

TIME = 'nova_time'                  # {TIME: ISO 8601}: a naive UTC datetime
BYTES = 'nova_bytes'                # {BYTES: base64}
SENDER = 'sender_version'           # context key: VERSION of the sending service
SENDER_HOST = 'sender_host'  # context key: name of the sending compute host; absent: a service of the control plane
DICT = 'nova_dict'                  # {DICT: [[key, value], …]}: a plain dictionary in which one of these tags is a key
OBJECT = f'{objects.NovaObject.OBJ_SERIAL_NAMESPACE}.name'
DATA = f'{objects.NovaObject.OBJ_SERIAL_NAMESPACE}.data'
_TAGS = frozenset((TIME, BYTES, DICT, OBJECT))
# tags as JSON keys, with quotes and colon; no string value contains these bytes, because JSON escapes its quotes
_KEYS = tuple(f'"{tag}":'.encode() for tag in _TAGS)

_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_NON_STR_KEYS


def _tag(value: object, manifest: Manifest | None = None) -> JsonObject:
    """Return the JSON representation of a value of a type that JSON lacks."""
    if isinstance(value, base.VersionedObject):
        made: JsonObject = at_version(value, manifest) if manifest else value.obj_to_primitive()
        return made
    if isinstance(value, datetime.datetime):
        return {TIME: value.isoformat()}
    if isinstance(value, bytes):
        return {BYTES: base64.b64encode(value).decode()}
    raise TypeError(f'A {type(value).__name__} cannot be sent between services.')


def at_version(value: base.VersionedObject, manifest: Manifest) -> JsonObject:
    """Return the primitive of an object in its own version or the version in the manifest, whichever is older."""
    target = manifest.get(value.obj_name(), value.VERSION)
    if parsed(target) > parsed(value.VERSION):
        target = value.VERSION                       # the object came from an older service
    made: JsonObject = value.obj_to_primitive(target_version=target, version_manifest=manifest)
    return made


def to_primitive(value: Value, manifest: Manifest | None = None) -> Any:
    """Return a deep copy of ``value`` with only JSON types.

    :param manifest: {object name: version} that the receiver supports; None: the present versions
    :raises TypeError: the value contains an unsupported type
    """
    tagged = 0

    def tag(item: object) -> JsonObject:
        nonlocal tagged
        tagged += 1
        return _tag(item, manifest)
    try:
        text = orjson.dumps(value, default=tag, option=_OPTIONS)
        # Keys of metadata, hints and properties may equal a tag; the receiver must not interpret these keys as tags.
        if sum(map(text.count, _KEYS)) != tagged:
            text = orjson.dumps(_escaped(value, manifest), default=_tag, option=_OPTIONS)
        return orjson.loads(text)
    except orjson.JSONEncodeError as error:
        raise error.__cause__ if isinstance(error.__cause__, TypeError) else TypeError(str(error)) from None


def _escaped(value: Value, manifest: Manifest | None) -> Value:
    """Return the value with a DICT in place of each plain dictionary that has a tag as a key."""
    if isinstance(value, base.VersionedObject):
        return {key: _escaped(item, manifest) if key == DATA else item for key, item in _tag(value, manifest).items()}
    if isinstance(value, dict):
        items = [(key, _escaped(item, manifest)) for key, item in value.items()]
        return {DICT: items} if _TAGS & value.keys() else dict(items)
    return [_escaped(item, manifest) for item in value] if isinstance(value, (list, tuple)) else value


def from_primitive(value: Any, context: nova_context.RequestContext | None = None,
                   backport: Backport | None = None) -> Any:
    """Deserialize a result of ``to_primitive``; this may change ``value`` in place.

    :param backport: function(context, primitive) -> the object in a version of this code; called for a newer one
    """
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, (dict, list)):
                value[index] = from_primitive(item, context, backport)
    elif isinstance(value, dict):
        if len(value) == 1:
            (tag, content), = value.items()
            if tag == TIME:
                return datetime.datetime.fromisoformat(content)
            if tag == BYTES:
                return base64.b64decode(content)
            if tag == DICT:
                return {key: from_primitive(item, context, backport) for key, item in content}
        for key, item in value.items():
            if isinstance(item, (dict, list)):
                value[key] = from_primitive(item, context, backport)
        if OBJECT in value:
            try:
                return objects.NovaObject.obj_from_primitive(value, context=context)
            except object_exc.IncompatibleObjectVersion:
                if backport is None:
                    raise
                return objects.NovaObject.obj_from_primitive(backport(context, value), context=context)
    return value


def object_backport(ctx: nova_context.RequestContext, primitive: str, versions: Manifest) -> str:
    """RPC method of conductors: convert an object for a service of an older release."""
    try:
        made: Any = from_primitive(orjson.loads(primitive), ctx)
    except object_exc.IncompatibleObjectVersion as error:
        raise exception.Unsupported(f'This conductor does not know {error.kwargs["objname"]} '
                                    f'{error.kwargs["objver"]}: upgrade the conductors first.') from None
    return orjson.dumps(to_primitive(made, versions)).decode()


class Serializer(oslo_messaging.Serializer):
    """Serializer of arguments, results, and contexts with their request ids, for oslo.messaging.

    Objects in requests have the versions that ``pin`` returns; replies contain versions that the caller supports.

    :param pin: function() -> versions.Pin of the receivers; None: a server, which sends replies only
    :param backport: see ``from_primitive``
    :param host: name of the sending compute host; None: a service of the control plane
    """

    def __init__(self, pin: Callable[[], versions.Pin] | None = None, backport: Backport | None = None,
                 host: str | None = None) -> None:
        self._pin, self._backport = pin, backport
        self._sender: JsonObject = {SENDER: versions.VERSION} | ({} if host is None else {SENDER_HOST: host})

    def serialize_entity(self, ctxt: nova_context.RequestContext | None, entity: Value) -> Json:
        if self._pin is not None:
            return to_primitive(entity, self._pin().objects)
        version = getattr(ctxt, 'sender_version', None)
        return to_primitive(entity, _known_to(versions.VERSION if version is None else version))

    def deserialize_entity(self, ctxt: nova_context.RequestContext | None, entity: Json) -> Value:
        return from_primitive(entity, ctxt, self._backport)

    def serialize_context(self, ctxt: nova_context.RequestContext) -> JsonObject:
        return {**ctxt.to_dict(), **self._sender}

    def deserialize_context(self, ctxt: JsonObject) -> nova_context.RequestContext:
        """Return the sender's context and make it the context of this thread, for the thread's log lines."""
        sent: dict[str, Any] = ctxt
        made = nova_context.RequestContext.from_dict(sent)
        made.sender_host, made.signed_by = sent.get(SENDER_HOST), sent.get('signed_by')
        made.sender_version = sent.get(SENDER, versions.OLDEST)     # the first release sent no version
        return made


def _known_to(version: int) -> dict[str, str] | None:
    """Return the manifest for a service of a VERSION, or None if the service supports the current object versions."""
    release = versions.RELEASES[min(max(version, versions.OLDEST), versions.VERSION)]
    return None if release.objects == versions.RELEASES[versions.VERSION].objects else release.objects
