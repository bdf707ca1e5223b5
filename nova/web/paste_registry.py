"""Registry that gives paste factories Python objects of this process: Paste passes only strings."""
import typing
import weakref

_registered: weakref.WeakValueDictionary[str, typing.Any] = weakref.WeakValueDictionary()

T = typing.TypeVar('T')


def register(thing: object) -> str:
    """Register an object and return its name for ``global_conf`` of paste's loadapp; the reference is weak."""
    name = f'{type(thing).__name__}-{id(thing)}'
    _registered[name] = thing
    return name


def lookup(name: str) -> typing.Any:
    """Return a registered object.

    :raises KeyError: no object has this name
    """
    return _registered[name]


def instances_of(kind: type[T]) -> list[T]:
    """Return the registered objects of a class."""
    return [thing for thing in _registered.values() if isinstance(thing, kind)]
