"""Registry that gives paste factories Python objects of this process: Paste passes only strings."""
import typing
import weakref

_offered: weakref.WeakValueDictionary[str, typing.Any] = weakref.WeakValueDictionary()


def offer(thing: typing.Any) -> str:
    """Register an object and return its name for ``global_conf`` of paste's loadapp; the reference is weak."""
    name = f'{type(thing).__name__}-{id(thing)}'
    _offered[name] = thing
    return name


def offered(name: str) -> typing.Any:
    """Return a registered object.

    :raises KeyError: no object has this name
    """
    return _offered[name]


def every(kind: type) -> list[typing.Any]:
    """Return the registered objects of a class."""
    return [thing for thing in _offered.values() if isinstance(thing, kind)]
