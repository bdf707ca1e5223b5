"""The types of volumes: two, and always the same."""
from __future__ import annotations

import typing

from nova import exception

Type = dict[str, typing.Any]

TYPES: tuple[Type, ...] = (
    {'id': '0e3b6d3e-5b1d-4f0f-9a27-1f6f1d7c9c11', 'name': '__DEFAULT__', 'description': 'The default type',
     'extra_specs': {}},
    {'id': '5d0f8c52-93b4-4c0e-8f3a-6a7f2f0d1b42', 'name': 'multiattach',
     'description': 'Volumes that several servers may have at once', 'extra_specs': {'multiattach': '<is> True'}},
)


def find(name: str | None) -> Type:
    """The type with an id or a name; the default one for None and ''.

    :raises VolumeTypeNotFound:
    """
    for found in TYPES:
        if not name or name in (found['id'], found['name']):
            return found
    raise exception.VolumeTypeNotFound(name=str(name)[:255])
