"""The fields of a request that filters go by; empty where a request has no spec."""
from __future__ import annotations

import typing

from nova import objects

if typing.TYPE_CHECKING:
    from nova.scheduler import pipeline

# documented extra specs without a scope that say nothing of hosts
_OTHERS = {'hide_hypervisor_id', 'group_policy'}


def flavor(request: pipeline.Request) -> dict[str, typing.Any]:
    return getattr(request.spec, 'flavor', None) or {}


def extra_specs(request: pipeline.Request) -> dict[str, str]:
    """{key: text} of the flavor."""
    return flavor(request).get('extra_specs') or {}


def image_id(request: pipeline.Request) -> str | None:
    return (getattr(request.spec, 'image', None) or {}).get('id')


def properties(request: pipeline.Request) -> dict[str, typing.Any]:
    """The properties of the image, {} of a server that boots from a volume."""
    return (getattr(request.spec, 'image', None) or {}).get('properties') or {}


def trusted_certificates(request: pipeline.Request) -> list[str] | None:
    """Ids of the certificates by one of which the image must be signed; None: it need not be."""
    return (getattr(request.spec, 'image', None) or {}).get('trusted_certs')


def hints(spec: objects.RequestSpec | None, name: str) -> list[typing.Any]:
    """The values of a scheduler hint, [] without it."""
    return (getattr(spec, 'hints', None) or {}).get(name) or []


def hint(request: pipeline.Request, name: str) -> typing.Any:
    """The only or first value of a scheduler hint, None without it."""
    return next(iter(hints(request.spec, name)), None)


def scoped(specs: dict[str, typing.Any], scope: str) -> dict[str, typing.Any]:
    """{key without the scope: value} of the extra specs that have this scope, or none."""
    found = {}
    for key, value in specs.items():
        first, colon, rest = key.partition(':')
        if not colon:
            if key not in _OTHERS:
                found[key] = value
        elif first == scope and rest:
            found[rest] = value
    return found


def listed(text: object) -> list[str]:
    """The parts of a value that separates them by commas."""
    return [part for part in (part.strip() for part in str(text).split(',')) if part]
