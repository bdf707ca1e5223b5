"""Ids of the EC2 API: a prefix and the first 17 digits of a uuid, or 8 of a number; either is of one thing for ever.

Users choose the uuids of their images. One with the digits of another that was known before is shown by its number: the
digits would be an id by which others start what they do not mean.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
import hashlib
import re
from typing import Any

from nova import utils
from nova.api.ec2 import errors
from nova.db import engine
from nova.db.ec2 import ids as db

_ID = re.compile(r'([a-z]+)-([0-9a-f]{8}|[0-9a-f]{17})\Z')
MOST_KNOWN = 10_000              # uuids of one prefix whose numbers a process remembers
IMAGES = ('ami', 'aki', 'ari')                # a kernel is an image, whatever it is called
CHOSEN = ('ami',)                # whose uuids are chosen by users


class Ids:
    """
    :param api_db: nova.db.engine.Database of the API
    """

    def __init__(self, api_db: engine.Database) -> None:
        self._db = api_db
        # {prefix: {uuid: number}}: a number is for ever. None: it has one, which was not read yet.
        self._known: dict[str, dict[str, int | None]] = {}
        self._later: dict[str, set[str]] = {}              # {prefix: uuids} of those that are shown by their numbers
        self._found: dict[tuple[str, str], str] = {}       # {(prefix, digits): uuid}, where users choose no uuids
        self.networks: dict[str, str] = {}                 # {uuid of a subnet: that of its network}, see subnet_places

    def shown(self, prefix: str, uuids: Iterable[str | None]) -> dict[str | None, str | None]:
        """{uuid: id} of all; None stands for itself."""
        wanted, known = [uuid for uuid in uuids if uuid], self._known.get(prefix) or {}
        if prefix in CHOSEN or not all(uuid in known for uuid in wanted):
            numbers = self.numbers(prefix, wanted)
            if later := self._later.get(prefix):
                return {None: None, **{uuid: f'{prefix}-{number:08x}' if uuid in later else utils.ec2_id(uuid, prefix)
                                       for uuid, number in numbers.items()}}
        return {None: None, **{uuid: utils.ec2_id(uuid, prefix) for uuid in wanted}}

    def one(self, prefix: str, uuid: str) -> str:
        """The id of one thing."""
        return str(self.shown(prefix, [uuid])[uuid])

    def number(self, prefix: str, uuid: str) -> int:
        return self.numbers(prefix, [uuid])[uuid]

    def begin(self, prefix: str, uuids: Iterable[str]) -> None:
        """Show ids of what has just been made without a look at the table: no request has named them before. They get
        their rows when one does, or when another process lists them.

        :param prefix: of what ``db.uuids`` finds without a row
        """
        self._remember(prefix, dict.fromkeys(uuids))

    def numbers(self, prefix: str, uuids: Iterable[str | None]) -> dict[str, int]:
        """{uuid: number} of all; tags are kept by numbers."""
        wanted = [uuid for uuid in uuids if uuid]
        known = self._known.get(prefix) or {}
        found = {uuid: number for uuid in wanted if (number := known.get(uuid)) is not None}
        if missing := [uuid for uuid in wanted if uuid not in found]:
            added = db.numbers(self._db, prefix, missing)
            found |= added
            if prefix in CHOSEN and (later := db.later(self._db, prefix, missing)):
                self._later[prefix] = self._later.get(prefix, set()) | later
            self._remember(prefix, added)
        return found

    def _remember(self, prefix: str, added: Mapping[str, int | None]) -> None:
        known = self._known.get(prefix) or {}
        # a new one in place of the old: another thread may be reading that
        self._known[prefix] = {**known, **added} if len(known) < MOST_KNOWN else {**added}

    def uuids(self, prefix: str, given: Collection[str], name: str | None = None) -> list[str]:
        """The uuids of ids that a client gave, in their order. Who looks them up finds whether the caller may see them.

        :raises Ec2Error: one is no id of this kind, or stands for nothing
        """
        wanted = [self._digits(prefix, shown) for shown in given]
        found = {digits: self._found[prefix, digits] for digits in wanted if (prefix, digits) in self._found}
        if missing := [digits for digits in wanted if digits not in found]:
            found |= (added := db.uuids(self._db, prefix, missing))
            if prefix not in CHOSEN:     # there a row that began before, and ends later, may be the first one yet
                kept = self._found if len(self._found) < MOST_KNOWN else {}
                self._found = {**kept, **{(prefix, digits): uuid for digits, uuid in added.items()}}
        for shown, digits in zip(given, wanted):
            if digits not in found:
                raise errors.not_found(prefix, shown)
        return [found[digits] for digits in wanted]

    def uuid(self, prefix: str, given: str) -> str:
        """
        :raises Ec2Error: as for ``uuids``
        """
        return self.uuids(prefix, [given])[0]

    @staticmethod
    def _digits(prefix: str, shown: str) -> str:
        match = _ID.match(shown)
        if not match or match[1] != prefix and not (prefix == 'ami' and match[1] in IMAGES):
            raise errors.malformed(prefix, shown)
        return match[2]


def prefix_of(shown: str) -> str:
    """The prefix of an id of any kind.

    :raises Ec2Error: it is none
    """
    match = _ID.match(shown)
    if not match:
        raise errors.Ec2Error('InvalidID', f'The ID {shown[:64]!r} is not valid.')
    return 'ami' if match[1] in IMAGES else match[1]


def image_as(prefix: str, shown: str | None) -> str | None:
    """The id of an image with another prefix of IMAGES; any other text stays as it is."""
    match = _ID.match(shown or '')
    return f'{prefix}-{match[2]}' if match and match[1] in IMAGES else shown


def forms_of_image(field: str) -> Callable[[dict[str, Any]], list[str]]:
    """A function of an item that gives the id in ``field`` with each prefix of IMAGES, for filters."""
    return lambda item: [str(image_as(prefix, item[field])) for prefix in IMAGES] if item.get(field) else []


def derived(*parts: str) -> str:
    """A uuid for what its service knows by a name alone."""
    return hashlib.sha256('\0'.join(parts).encode()).hexdigest()
