"""Request rate limits of projects, shared by all API processes.

A line of ``[api] rate_limits`` is ``VERB URI REGEX VALUE UNIT``. A limit counts a request if its VERB equals the
method, and its REGEX matches the path (below version and project, with the query).

Each limit is a token bucket of VALUE tokens, refilled at one token every UNIT / VALUE. The API database stores one
value for each limit and project: the time when the bucket will be full. One conditional UPDATE takes a token from all
matching limits, or from none if one of them is exhausted.
"""
import dataclasses
import hashlib
import itertools
import math
import time
import urllib.parse
from collections.abc import Callable, Iterable
from typing import TypedDict
from wsgiref.types import WSGIEnvironment

import re2

from nova import context as nova_context
from nova import exception
from nova import utils
from nova.db import engine
from nova.db.projects import rate_limits as rows

UNITS = {'SECOND': 1, 'MINUTE': 60, 'HOUR': 3600, 'DAY': 86400}
VERBS = ('GET', 'POST', 'PUT', 'DELETE', 'PATCH')
MICRO = 1_000_000
SAMPLE = 'guide'              # a line that is replaced by the sample limits of the API guide
_OF_SAMPLE = ('POST * .* 120 MINUTE', 'POST */servers ^/servers 120 MINUTE', 'PUT * .* 120 MINUTE',
              'GET *changes-since* .*changes-since.* 120 MINUTE', 'DELETE * .* 120 MINUTE',
              'GET */os-fping* ^/os-fping 12 MINUTE')
PRUNE_S = 600                 # seconds between two deletions of expired rows
EXEMPT_ROLE = 'service'       # role without limits: services send requests for all projects


# a limit in the response of GET /limits
RemainingLimit = TypedDict('RemainingLimit', {
    'verb': str, 'value': int, 'remaining': int, 'unit': str, 'next-available': str | None})


class LimitsOfUri(TypedDict):
    uri: str
    regex: str
    limit: list[RemainingLimit]


@dataclasses.dataclass(frozen=True)
class Limit:
    """One line of [api] rate_limits. ``uri`` is shown to users, and ``regex`` is matched against paths."""

    verb: str
    uri: str
    regex: str
    value: int
    unit: str

    @property
    def name(self) -> str:
        """Key of the limit in the database. A changed limit has a new key, and therefore full buckets."""
        text = f'{self.verb} {self.regex} {self.value} {self.unit}'
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def window(self) -> int:
        """Microseconds of the unit."""
        return UNITS[self.unit] * MICRO

    @property
    def step(self) -> int:
        """Microseconds until a bucket gets another token."""
        return max(1, self.window // self.value)


def parse(lines: Iterable[str]) -> tuple[Limit, ...]:
    """Parse the lines of [api] rate_limits.

    :raises InvalidInput: a line is malformed
    """
    limits = []
    for line in itertools.chain.from_iterable(_OF_SAMPLE if line.strip() == SAMPLE else (line,) for line in lines):
        words = line.split()
        if len(words) != 5:
            raise exception.InvalidInput(f'[api] rate_limits: "{line}" is not VERB URI REGEX VALUE UNIT.')
        verb, uri, regex, value, unit = words
        if verb not in VERBS or unit not in UNITS:
            raise exception.InvalidInput(f'[api] rate_limits: "{line}" must start with {", ".join(VERBS)} and end '
                                         f'with {", ".join(UNITS)}.')
        if not (value.isascii() and value.isdigit() and len(value) <= 11 and 0 < int(value) <= UNITS[unit] * MICRO):
            raise exception.InvalidInput(f'[api] rate_limits: {value} in "{line}" is not a valid number of requests.')
        _check_regex(line, regex)
        limits.append(Limit(verb, uri, regex, int(value), unit))
    return tuple(limits)


def _check_regex(line: str, regex: str) -> None:
    try:
        re2.compile(regex)
    except re2.error:
        raise exception.InvalidInput(f'[api] rate_limits: {regex} in "{line}" is not a regular expression.') from None


class RateLimits:
    """The limits of a deployment; falsy without limits.

    :param lines: [api] rate_limits
    :param api_db: Database of the API database
    :param clock: seconds since the epoch
    """

    def __init__(self, lines: Iterable[str], api_db: engine.Database, clock: Callable[[], float] = time.time) -> None:
        self.limits = parse(lines)
        self._db, self._clock = api_db, clock
        self._patterns = [(limit, re2.compile(limit.regex).search) for limit in self.limits]
        self._prune_at = 0
        # {(owner, limits): time of the next token}: avoids queries for exhausted limits
        self._used_up: dict[tuple[str, tuple[Limit, ...]], int] = {}

    def __bool__(self) -> bool:
        return bool(self.limits)

    def matching(self, verb: str, path: str) -> tuple[Limit, ...]:
        """Return the limits that count a request.

        :param path: path below version and project, with leading '/' and the query
        """
        return tuple(limit for limit, search in self._patterns if limit.verb == verb and search(path))

    def check(self, context: nova_context.RequestContext, environ: WSGIEnvironment, path: list[str],
              error: type[exception.RateLimited] = exception.RateLimited) -> None:
        """Count a request.

        :param path: path segments below version and project
        :param error: class of the exception that is raised if a limit is exceeded
        """
        verb, query = environ['REQUEST_METHOD'], environ.get('QUERY_STRING')
        text = '/' + '/'.join(path) + (f'?{urllib.parse.unquote_plus(query)}' if query else '')
        limits = self.matching('GET' if verb == 'HEAD' else verb, text)
        if not limits or context.is_admin or EXEMPT_ROLE in context.roles:     # administrators and services are exempt
            return
        now, owner = int(self._clock() * MICRO), _owner(context)
        known = self._used_up.get((owner, limits), 0)
        free_at = known if known > now else self._take(owner, limits, now)
        if free_at is not None:
            self._used_up[owner, limits] = free_at
            limit = max(limits, key=lambda row: row.step)
            raise error(value=limit.value, verb=limit.verb, uri=limit.uri, unit=limit.unit.lower(),
                        retry_after=max(1, math.ceil((free_at - now) / MICRO)))

    def _take(self, owner: str, limits: tuple[Limit, ...], now: int) -> int | None:
        """Take a token from each limit. If a limit has none, return the time of its next token (epoch microseconds)."""
        steps = {limit.name: (limit.step, limit.window) for limit in limits}
        try:
            return self._db.run(rows.take, owner, steps, now)
        except rows.NotTaken:
            self._prune(now)
        with self._db.reader() as conn:
            full = rows.full_at(conn, owner, steps)
        if len(full) == len(steps):
            return _free_at(limits, full)
        self._db.run(rows.begin, owner, steps, now)
        try:
            return self._db.run(rows.take, owner, steps, now)
        except rows.NotTaken:
            return _free_at(limits, full)

    def _prune(self, now: int) -> None:
        if now < self._prune_at:
            return
        self._prune_at = now + PRUNE_S * MICRO
        used_up = list(self._used_up.items())              # a copy, because other threads insert keys
        self._used_up = {key: free_at for key, free_at in used_up if free_at > now}
        self._db.run(rows.prune, now)

    def shown(self, context: nova_context.RequestContext) -> list[LimitsOfUri]:
        """Return ``limits.rate`` of GET /limits: the limits and the remaining requests."""
        if not self.limits:
            return []
        with self._db.reader() as conn:
            full = rows.full_at(conn, _owner(context), [limit.name for limit in self.limits])
        now = int(self._clock() * MICRO)
        found: dict[tuple[str, str], list[RemainingLimit]] = {}
        for limit in self.limits:
            used = max(0, full.get(limit.name, 0) - now)
            remaining = min(limit.value, (limit.window - used) // limit.step)
            wait = 0 if remaining else used + limit.step - limit.window
            found.setdefault((limit.uri, limit.regex), []).append({
                'verb': limit.verb, 'value': limit.value, 'remaining': remaining, 'unit': limit.unit,
                'next-available': utils.isotime(utils.from_timestamp((now + wait) / MICRO))})
        return [{'uri': uri, 'regex': regex, 'limit': limit} for (uri, regex), limit in found.items()]


def _owner(context: nova_context.RequestContext) -> str:
    """Return the owner of the buckets: the project, or the user if the token has no project."""
    return context.project_id or f'user:{context.user_id}'[:255]


def _free_at(limits: tuple[Limit, ...], full: dict[str, int]) -> int:
    """Return the time when every limit has a token again."""
    return max(full.get(limit.name, 0) + limit.step - limit.window for limit in limits)
