"""EC2 IDs: a prefix and the first 17 hexadecimal digits of a UUID, or 8 digits of a number. IDs never change.

Users can choose the UUIDs of images. If the 17 digits already stand for another image, the ID has the number of the
new image; otherwise users could impersonate an image of another project.
"""
from collections.abc import Callable, Collection, Iterable, Mapping
import hashlib
import re
from typing import Any

from nova import utils
from nova.db import engine
from nova.db.ec2 import ids as db
from nova.ec2 import errors

_ID = re.compile(r'([a-z]+)-([0-9a-f]{8}|[0-9a-f]{17})\Z')
MAX_CACHED = 10_000              # cached UUIDs of one prefix
IMAGES = ('ami', 'aki', 'ari')                # kernels and ramdisks are images too
CHOSEN = ('ami',)                # prefixes of resources with UUIDs chosen by users


class Ids:
    """Conversion between UUIDs and EC2 IDs.

    :param api_db: nova.db.engine.Database of the API
    """

    def __init__(self, api_db: engine.Database) -> None:
        self._db = api_db
        # {prefix: {uuid: number, or None if the number has not been read}}; the entries never become stale
        self._known: dict[str, dict[str, int | None]] = {}
        self._later: dict[str, set[str]] = {}              # {prefix: UUIDs with an ID made of the number}
        self._found: dict[tuple[str, str], str] = {}       # {(prefix, digits): uuid}, except for CHOSEN
        # cache of images.listing: {UUID of an image: (architecture, type of the operating system)}
        self.systems: dict[str, tuple[str | None, str | None]] = {}
        self.networks: dict[str, str] = {}              # {UUID of a subnet: UUID of its network}, for subnet_placement

    def shown(self, prefix: str, uuids: Iterable[str | None]) -> dict[str | None, str | None]:
        """Return {UUID: EC2 ID}; None maps to None."""
        wanted, known = [uuid for uuid in uuids if uuid], self._known.get(prefix) or {}
        if prefix in CHOSEN or not all(uuid in known for uuid in wanted):
            numbers = self.numbers(prefix, wanted)
            if later := self._later.get(prefix):
                return {None: None, **{uuid: f'{prefix}-{number:08x}' if uuid in later else utils.ec2_id(uuid, prefix)
                                       for uuid, number in numbers.items()}}
        return {None: None, **{uuid: utils.ec2_id(uuid, prefix) for uuid in wanted}}

    def one(self, prefix: str, uuid: str) -> str:
        """Return the EC2 ID of one resource."""
        return str(self.shown(prefix, [uuid])[uuid])

    def number(self, prefix: str, uuid: str) -> int:
        return self.numbers(prefix, [uuid])[uuid]

    def begin(self, prefix: str, uuids: Iterable[str]) -> None:
        """Cache new resources, so that ``shown`` needs no database query for their IDs.

        The row of an ID is inserted later: when a request names the ID, or another process lists the resource.

        :param prefix: prefix of IDs that ``db.uuids`` can resolve without a row
        """
        self._remember(prefix, dict.fromkeys(uuids))

    def numbers(self, prefix: str, uuids: Iterable[str | None]) -> dict[str, int]:
        """Return {UUID: number in the table of IDs}; the rows of tags refer to this number."""
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
        # copy, because other threads may read the old dictionary
        self._known[prefix] = {**known, **added} if len(known) < MAX_CACHED else {**added}

    def uuids(self, prefix: str, given: Collection[str], name: str | None = None) -> list[str]:
        """Return the UUIDs of IDs in a request, in their order. Does not check if the caller may see the resources.

        :raises Ec2Error: an ID is malformed, of another kind, or unknown
        """
        wanted = [self._digits(prefix, shown) for shown in given]
        found = {digits: self._found[prefix, digits] for digits in wanted if (prefix, digits) in self._found}
        if missing := [digits for digits in wanted if digits not in found]:
            found |= (added := db.uuids(self._db, prefix, missing))
            if prefix not in CHOSEN:     # do not cache CHOSEN: a row with a lower number may be committed later
                kept = self._found if len(self._found) < MAX_CACHED else {}
                self._found = {**kept, **{(prefix, digits): uuid for digits, uuid in added.items()}}
        for shown, digits in zip(given, wanted):
            if digits not in found:
                raise errors.not_found(prefix, shown)
        return [found[digits] for digits in wanted]

    def uuid(self, prefix: str, given: str) -> str:
        """Return the UUID of an ID.

        :raises Ec2Error: see ``uuids``
        """
        return self.uuids(prefix, [given])[0]

    @staticmethod
    def _digits(prefix: str, shown: str) -> str:
        match = _ID.match(shown)
        if not match or match[1] != prefix and not (prefix == 'ami' and match[1] in IMAGES):
            raise errors.malformed(prefix, shown)
        return match[2]


def prefix_of(shown: str) -> str:
    """Return the prefix of any ID.

    :raises Ec2Error: the ID is malformed
    """
    match = _ID.match(shown)
    if not match:
        raise errors.Ec2Error('InvalidID', f'The ID {shown[:64]!r} is invalid.')
    return 'ami' if match[1] in IMAGES else match[1]


def image_as(prefix: str, shown: str | None) -> str | None:
    """Replace the prefix of an image ID; other text is returned unchanged."""
    match = _ID.match(shown or '')
    return f'{prefix}-{match[2]}' if match and match[1] in IMAGES else shown


def forms_of_image(field: str) -> Callable[[dict[str, Any]], list[str]]:
    """Return a function for filters: item -> its image ID (in ``field``) with each prefix of IMAGES."""
    return lambda item: [str(image_as(prefix, item[field])) for prefix in IMAGES] if item.get(field) else []


def derived(*parts: str) -> str:
    """Return digits to be used as the UUID of a resource that its service identifies only by name."""
    return hashlib.sha256('\0'.join(parts).encode()).hexdigest()
