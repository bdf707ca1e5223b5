"""Private parts of oslo.versionedobjects 3.12.0: the attributes that store field values.

The library makes several calls for each field to create, read or send an object. These calls took a fifth of a
conductor's processor time, so ``Object`` accesses the attributes directly.
"""
from __future__ import annotations

import sys
from typing import Any, NamedTuple, Self, TYPE_CHECKING

from oslo_versionedobjects import base
from oslo_versionedobjects import fields

if TYPE_CHECKING:
    from oslo_context.context import RequestContext


class _Place(NamedTuple):
    """Storage of a field's value in an object.

    name   name of the field
    key    key in the object's __dict__
    field  definition of the field
    plain  whether values are serialized unchanged
    exact  the type of values that need no coercion; None: all values need coercion
    """

    name: str
    key: str
    field: fields.Field[Any]
    plain: bool
    exact: type | None


_EXACT: dict[type, type] = {fields.String: str, fields.Integer: int, fields.Boolean: bool}


_PLACES: dict[type[base.VersionedObject], dict[str, _Place]] = {}


def _places(kind: type[base.VersionedObject]) -> dict[str, _Place]:
    """Return {field name: its place}, cached: the fields of a class do not change after its registration."""
    found = _PLACES.get(kind)
    if found is None:
        found = _PLACES[kind] = {
            name: _Place(name, sys.intern(base._get_attrname(name)), field,
                         type(field._type).to_primitive is fields.FieldType.to_primitive,
                         _EXACT.get(type(field._type)))
            for name, field in kind.fields.items()}
    return found


class Object(base.VersionedObject, base.VersionedObjectDictCompat):
    """Base class of the versioned objects; no field is read-only, loaded lazily or an object.

    The object does not track changed fields, because no receiver uses this information.
    """

    def __init__(self, context: RequestContext | None = None, **values: object) -> None:
        super().__init__(context)
        places, own = _places(type(self)), self.__dict__
        for name, value in values.items():
            place = places.get(name)
            if place is None:
                setattr(self, name, value)
            else:
                own[place.key] = value if type(value) is place.exact else place.field.coerce(self, name, value)

    @classmethod
    def _obj_from_primitive(cls, context: RequestContext | None, objver: str, primitive: dict[str, Any]) -> Self:
        self = cls(context)
        self.VERSION = objver
        own, data = self.__dict__, cls._obj_primitive_field(primitive, 'data')
        for name, key, field, plain, exact in _places(cls).values():
            if name in data:
                value = data[name]
                if type(value) is not exact:
                    value = field.coerce(self, name, value if plain else field.from_primitive(self, name, value))
                own[key] = value
        return self

    def obj_to_primitive(self, target_version: str | None = None,
                         version_manifest: dict[str, str] | None = None) -> dict[str, Any]:
        if target_version not in (None, self.VERSION) or version_manifest:
            return super().obj_to_primitive(target_version, version_manifest)
        own, data = self.__dict__, {}
        for name, key, field, plain, _exact in _places(type(self)).values():
            if key in own:
                value = own[key]
                data[name] = value if plain else field.to_primitive(self, name, value)
        return {self._obj_primitive_key('name'): self.obj_name(),
                self._obj_primitive_key('namespace'): self.OBJ_PROJECT_NAMESPACE,
                self._obj_primitive_key('version'): self.VERSION,
                self._obj_primitive_key('data'): data}

    def obj_what_changed(self) -> set[str]:
        """Return an empty set: otherwise messages would also name the changed fields, which no receiver uses."""
        return set()

    def obj_attr_is_set(self, attrname: str) -> bool:
        place = _places(type(self)).get(attrname)
        return super().obj_attr_is_set(attrname) if place is None else place.key in self.__dict__

    def as_dict(self) -> dict[str, Any]:
        """Return {field: value} of the fields that are set."""
        own = self.__dict__
        return {name: own[key] for name, key, *_ in _places(type(self)).values() if key in own}
