"""What a request says, where filters look for it; nothing where a request has no spec."""


# documented extra specs without a scope that say nothing of hosts
_OTHERS = {'hide_hypervisor_id', 'group_policy'}


def flavor(request):
    return getattr(request.spec, 'flavor', None) or {}


def extra_specs(request):
    """{key: text} of the flavor."""
    return flavor(request).get('extra_specs') or {}


def image_id(request):
    return (getattr(request.spec, 'image', None) or {}).get('id')


def properties(request):
    """The properties of the image, {} of a server that boots from a volume."""
    return (getattr(request.spec, 'image', None) or {}).get('properties') or {}


def hints(spec, name):
    """The values of a scheduler hint, [] without it."""
    return (getattr(spec, 'hints', None) or {}).get(name) or []


def hint(request, name):
    """The only or first value of a scheduler hint, None without it."""
    return next(iter(hints(request.spec, name)), None)


def scoped(specs, scope):
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


def listed(text):
    """The parts of a value that separates them by commas."""
    return [part for part in (part.strip() for part in str(text).split(',')) if part]
