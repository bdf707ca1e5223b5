"""Fields of a request that filters read. Without a spec the functions return empty values or None."""
from nova import objects
from nova.json_types import Json
from nova.scheduler.placement_request import Request

# extra specs without a scope that are settings, not requirements on hosts
_OTHERS = {'hide_hypervisor_id', 'group_policy'}


def flavor_name(request: Request) -> str | None:
    return (getattr(request.spec, 'flavor', None) or {}).get('name')


def extra_specs(request: Request) -> dict[str, str]:
    """Return the extra specs {key: text} of the flavor."""
    return (getattr(request.spec, 'flavor', None) or {}).get('extra_specs') or {}


def image_id(request: Request) -> str | None:
    return (getattr(request.spec, 'image', None) or {}).get('id')


def properties(request: Request) -> dict[str, str]:
    """Return the properties of the image, or {} for a server that boots from a volume."""
    return (getattr(request.spec, 'image', None) or {}).get('properties') or {}


def trusted_certificates(request: Request) -> list[str] | None:
    """Return the certificate ids that the user accepts for the image's signature, or None if the user listed none."""
    return (getattr(request.spec, 'image', None) or {}).get('trusted_certs')


def hints(spec: objects.RequestSpec | None, name: str) -> list[Json]:
    """Return the values of a scheduler hint, or [] if the request does not have it."""
    return (getattr(spec, 'hints', None) or {}).get(name) or []


def hint(request: Request, name: str) -> Json:
    """Return the first value of a scheduler hint, or None if the request does not have it."""
    return next(iter(hints(request.spec, name)), None)


def scoped(specs: dict[str, str], scope: str) -> dict[str, str]:
    """Return {key: value} of the extra specs ``<scope>:<key>`` and of the extra specs without a scope."""
    found = {}
    for key, value in specs.items():
        first, colon, rest = key.partition(':')
        if not colon:
            if key not in _OTHERS:
                found[key] = value
        elif first == scope and rest:
            found[rest] = value
    return found


def listed(text: str | None) -> list[str]:
    """Split a comma-separated value."""
    return [part for part in (part.strip() for part in str(text).split(',')) if part]
