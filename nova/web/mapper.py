"""URL mapping: Route rows matched by the Routes library.

Rows with the same first segment and number of segments share a mapper, so that a lookup tries few regular expressions.
Fixed segments take precedence over ``{parts}``.
"""
import collections.abc
import functools

import routes as routes_library

from nova import exception
from nova.json_types import Json
from nova.web.routes import Route

Named = tuple[Route, tuple[str, ...]]          # a row and the names of its path parameters
Methods = dict[str, list[Named]]
_PART = '{}'
_PARTS = tuple(f'part{number}' for number in range(16))      # names of path parameters in Routes


class Mapper:
    """URL map of an application.

    :param rows: Route rows
    """

    def __init__(self, rows: collections.abc.Iterable[Route]) -> None:
        self._paths: dict[str, Methods] = {}
        for row in rows:
            shape, names = _shape(row.path)
            methods = self._paths.setdefault(shape, {})
            methods.setdefault(row.method, []).append((row, names))
        self._first = {segments[0] for segments in map(_segments, self._paths) if segments} - {_PART}
        groups: dict[tuple[str, int], list[str]] = {}
        for shape in self._paths:
            segments = _segments(shape)
            first = segments[0] if segments and segments[0] != _PART else ''
            groups.setdefault((first, len(segments)), []).append(shape)
        self._groups = groups
        self._mappers: dict[tuple[str, int], routes_library.Mapper] = {}

    def knows(self, segment: str) -> bool:
        """Return True if a path may begin with this segment."""
        return segment in self._first

    def find(self, segments: list[str], method: str) -> tuple[Methods | None, list[str]]:
        """Find ({method: [(row, parameter names)]}, [parameter values]) of a path, or (None, []).

        If several paths match, prefer a path that supports the method: a parameter may equal a fixed segment.
        """
        first, path = segments[0] if segments else '', '/' + '/'.join(segments)
        if '\n' in path:       # replace line feeds by NUL, which no path has: $ also matches before a final line feed
            path = path.replace('\n', '\0')
        methods = self._paths.get(path[1:])
        if methods is not None and method in methods and _PART not in segments:         # fixed segments take precedence
            return methods, []
        keys = (first, len(segments)), ('', len(segments))
        for environ in ({'REQUEST_METHOD': method}, None):
            for key in keys:
                mapper = self._mapper(key)
                found = mapper.match(path, environ) if mapper is not None else None
                if found:
                    shape = found.pop('shape')
                    values = [found[name] for name in _PARTS[:len(found)]]
                    if '\0' in path:
                        values = [value.replace('\0', '\n') for value in values]
                    return self._paths[shape], values
        return None, []

    def _mapper(self, key: tuple[str, int]) -> routes_library.Mapper | None:
        """Return the mapper of a group, None for an unknown group. Mappers are built when first used."""
        if key not in self._mappers and key in self._groups:
            shapes = sorted(self._groups[key], key=lambda shape: [part == _PART for part in _segments(shape)])
            self._mappers[key] = _mapper(tuple((shape, tuple(self._paths[shape])) for shape in shapes))
        return self._mappers.get(key)


@functools.cache
def _mapper(shapes: tuple[tuple[str, tuple[str, ...]], ...]) -> routes_library.Mapper:
    """Return a mapper of Routes for (shape, methods) pairs; a match without an environ ignores the method."""
    found = routes_library.Mapper(explicit=True)
    found.minimization = False
    for shape, methods in shapes:
        found.connect(_template(shape), shape=shape, conditions={'method': [*methods]})
    found.create_regs()
    return found


def _segments(path: str) -> list[str]:
    return path.strip('/').split('/') if path.strip('/') else []


@functools.cache
def _shape(path: str) -> tuple[str, tuple[str, ...]]:
    """Return (path with ``{}`` in place of each parameter, names of the parameters)."""
    segments = _segments(path)
    names = tuple(segment[1:-1] for segment in segments if segment.startswith('{'))
    return '/'.join(_PART if segment.startswith('{') else segment for segment in segments), names


def _template(shape: str) -> str:
    """Return the path in the syntax of Routes; a parameter may contain any character but a slash."""
    segments, number = [], 0
    for segment in _segments(shape):
        if segment == _PART:
            segment, number = f'{{{_PARTS[number]}:[^/]+}}', number + 1
        segments.append(segment)
    return '/' + '/'.join(segments)


def choose(rows_of_method: list[Named], version: int, body: Json = None) -> Named:
    """Choose the (row, names) for a version; for ``…/action`` rows also by the key of the body.

    :raises NotFound: no row at this version
    :raises BadRequest: the body has no known action, or several actions
    """
    if rows_of_method[0][0].action is not None:
        rows_of_method = _by_action(rows_of_method, body)
    for row, names in rows_of_method:
        if row.at(version):
            return row, names
    raise exception.NotFound()


def _by_action(rows: list[Named], body: Json) -> list[Named]:
    if not isinstance(body, dict) or not body:
        raise exception.BadRequest('Malformed request body')
    named = [pair for pair in rows if pair[0].action in body]
    if not named:
        raise exception.BadRequest('There is no such action: %s' % ', '.join(
            key[:40] for key in list(body)[:3]))
    if len({row.action for row, _names in named}) > 1:
        raise exception.BadRequest('Malformed request body: it names more than one action.')
    return named
