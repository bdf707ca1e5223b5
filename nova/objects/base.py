"""Base of the versioned objects: data between services, without I/O.

Objects are built from keyword arguments, or with ``from_row`` from a database row with equal column names. Lists
of objects are plain Python lists. A new field increases the object's minor version and is listed in ``ADDED``.
Receivers must not require the field, because older services do not send it. rpc/versions.py maps services to versions.
"""
from collections.abc import Mapping
import datetime
import inspect
from types import NoneType
from typing import Annotated, Any, Self, get_args

from oslo_utils import versionutils
from oslo_versionedobjects import base
from oslo_versionedobjects import fields

from nova.json_types import Json
from nova.json_types import JsonObject
from nova.runtime.hooks import oslo_versionedobjects


class _JsonType(fields.FieldType[Any]):
    """Field type of any JSON value, stored unchanged."""

    @staticmethod
    def coerce(obj: base.VersionedObject | None, attr: str, value: Json) -> Json:
        return value


class JsonField(fields.AutoTypedField[Any]):
    AUTO_TYPE = _JsonType()

    def __init__(self) -> None:
        super().__init__(nullable=True)                  # null is a JSON value


class _UtcType(fields.DateTime):
    """Field type of a naive UTC datetime, as in the databases."""

    def __init__(self) -> None:
        super().__init__(tzinfo_aware=False)


class UtcField(fields.AutoTypedField[Any]):
    AUTO_TYPE = _UtcType()


Uuid = Annotated[str, fields.UUIDField]
_FIELDS: dict[Any, type[fields.AutoTypedField[Any]]] = {
    str: fields.StringField, int: fields.IntegerField, bool: fields.BooleanField, datetime.datetime: UtcField,
    Uuid: fields.UUIDField}


def _field(kind: Any) -> fields.AutoTypedField[Any]:
    """Return the field for an annotation: Any, a type in _FIELDS, or ``type | None``."""
    if kind is Any:
        return JsonField()
    if kind in _FIELDS:
        return _FIELDS[kind]()
    kind, none = get_args(kind)
    if none is not NoneType:
        raise TypeError(f'{kind} | {none} is not a supported type of a field')
    return _FIELDS[kind](nullable=True)


class NovaObject(oslo_versionedobjects.Object):
    """Base of the objects. The annotations of a class are its fields."""

    OBJ_PROJECT_NAMESPACE = 'nova'
    OBJ_SERIAL_NAMESPACE = 'nova_object'

    # {version: names of its new fields}; the fields are dropped for receivers of an older version
    ADDED: dict[str, tuple[str, ...]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if 'fields' not in vars(cls):
            cls.fields = {name: _field(kind) for name, kind in inspect.get_annotations(cls).items()}

    def obj_make_compatible(self, primitive: JsonObject, target_version: str) -> None:
        super().obj_make_compatible(primitive, target_version)
        target = versionutils.convert_version_to_tuple(target_version)
        for version, names in self.ADDED.items():
            if versionutils.convert_version_to_tuple(version) > target:
                for name in names:
                    primitive.pop(name, None)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Return an object with the fields that a row (a mapping) contains."""
        return cls(**{name: row[name] for name in cls.fields if name in row})


register = base.VersionedObjectRegistry.register
