"""Objects of this process by name: Paste hands strings to a factory, and nothing else."""
import typing
import weakref

_offered: weakref.WeakValueDictionary[str, typing.Any] = weakref.WeakValueDictionary()


def offer(thing: typing.Any) -> str:
    """A name of an object, for the ``global_conf`` of paste's loadapp; valid as long as the caller keeps the object."""
    name = f'{type(thing).__name__}-{id(thing)}'
    _offered[name] = thing
    return name


def offered(name: str) -> typing.Any:
    """The object of a name.

    :raises KeyError: no object has it
    """
    return _offered[name]


def every(kind: type) -> list[typing.Any]:
    """The objects of a class that have a name."""
    return [thing for thing in _offered.values() if isinstance(thing, kind)]
