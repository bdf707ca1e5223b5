"""What an operation of the EC2 API is made of: its row and its request."""
from __future__ import annotations

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
import dataclasses
import functools
import time
from typing import Any

from nova.api.ec2 import calls
from nova.api.ec2 import errors
from nova.api.ec2 import ids
from nova.api.ec2 import written
from nova.api.ec2.images import imports
from nova.db import engine
from nova.web import request as web_request


PAGE = 1000                       # items of one page of a list of a service
FEW = 8                           # things that are requested one by one, and not as a list of all
# prefix of an id that the metadata service gives to guests: (service, list of such things). Instances: nova.db.ec2.ids
READ_BY_GUESTS = {'ami': ('image', 'images'), 'eni': ('network', 'ports'), 'subnet': ('network', 'subnets')}
MOST_WAITS = 8                    # requests of a process that wait for a server; half of them of one project


@dataclasses.dataclass(frozen=True)
class Bundles:
    """What opens bundled images.

    decrypt   (project id, hexadecimal text) -> what was encrypted for the authority of a project; as nova-cert
    signed    (project id, digest, signature: hexadecimal) -> whether a user of a project has signed it
    limit     bytes of an image
    imports   of this process
    """

    decrypt: Callable[[str, str], str]
    signed: Callable[[str, str, str], bool]
    limit: int
    imports: imports.Imports


@dataclasses.dataclass(frozen=True)
class Request:
    """What a handler gets.

    caller       the services of the cloud, called as the user
    ids          of the EC2 API
    api_db       the API database, for tags
    region       the name of the region
    url          where the EC2 API itself is reached
    request_id   of this request
    bundles      None: this cloud opens none
    waits        places of requests that wait for a server, see ``waits``
    written      what this process has written before
    own_network  guests have their metadata by the product's own network service
    began        by the monotonic clock
    """

    caller: calls.Caller
    ids: ids.Ids
    api_db: engine.Database
    region: str
    url: str
    request_id: str
    bundles: Bundles | None = None
    waits: web_request.Streams = dataclasses.field(default_factory=lambda: web_request.Streams(MOST_WAITS))
    written: written.Memory = dataclasses.field(default_factory=written.Memory)
    own_network: bool = True
    began: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def project_id(self) -> str:
        return self.caller.user.project_id

    @functools.cached_property
    def vpc(self) -> str:
        """The id of the one VPC of the project."""
        return self.ids.one('vpc', ids.derived('vpc', self.project_id))

    def call(self, service: str, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """See ``calls.Caller.call``."""
        return self.caller.call(service, method, path, body, **more)

    def writes(self) -> None:
        """To be called before each write to tables of the EC2 API: a dry run ends here."""
        self.caller.writes()

    def uuid(self, prefix: str, shown: str) -> str:
        """See ``uuids``."""
        return self.uuids(prefix, [shown])[0]

    def uuids(self, prefix: str, given: Collection[str]) -> list[str]:
        """The uuids of ids that a client gave, see ``ids.Ids.uuids``.

        Guests read ids that no request has named before. Such ids are found in the list of what the caller may see; the
        oldest thing of some digits has their id.
        """
        try:
            return self.ids.uuids(prefix, given)
        except errors.Ec2Error as error:
            if prefix not in READ_BY_GUESTS or error.code != errors.NOT_FOUND[prefix][0]:
                raise
        service, noun = READ_BY_GUESTS[prefix]
        rows = sorted(self.pages(service, f'/{noun}', noun), key=lambda row: (row.get('created_at') or '', row['id']))
        self.ids.numbers(prefix, [row['id'] for row in rows])
        return self.ids.uuids(prefix, given)

    def find(self, prefix: str, shown: str, service: str, path: str) -> dict[str, Any]:
        """The document of a thing that a client names by its id, as the caller may see it.

        :param path: with ``{}`` in place of its uuid
        :raises Ec2Error: it is no id of this kind, or there is none for the caller
        """
        try:
            return dict(self.call(service, 'GET', path.format(self.uuid(prefix, shown))))
        except errors.ServiceRefused as refused:
            if refused.status == 404:
                raise errors.not_found(prefix, shown) from None
            raise

    def chosen(self, prefix: str, wanted: Sequence[str] | None, service: str, noun: str) -> list[dict[str, Any]]:
        """Items in detail: at least those of the ids that a request names, all where it names none.

        :param noun: of the path, the key of the list and, without its s, that of one item
        :raises Ec2Error: one of a few is not there
        """
        if wanted and len(wanted) <= FEW:
            return [self.find(prefix, shown, service, f'/{noun}/{{}}')[noun.removesuffix('s')]
                    for shown in dict.fromkeys(wanted)]
        return self.pages(service, f'/{noun}/detail', noun)

    def pages(self, service: str, path: str, key: str, query: dict[str, Any] | None = None,
              enough: Callable[[dict[str, Any]], bool] = lambda _last: False, **more: Any) -> list[dict[str, Any]]:
        """All items of a list that its service cuts into pages.

        :param key: of the list in the answer
        :param query: what all of them are like
        :param enough: function(the last item of a page) -> whether the pages after it are not needed
        """
        found: list[dict[str, Any]] = []
        place: dict[str, Any] = {'limit': PAGE}
        while True:
            document = self.call(service, 'GET', path, query={**(query or {}), **place}, **more)
            rows = document[key]
            found += rows
            whole = not rows or len(rows) < PAGE and 'next' not in document and not document.get(f'{key}_links')
            if whole or enough(rows[-1]):
                return found
            place = {'limit': PAGE, 'marker': rows[-1]['id']}


Given = dict[str, Any]
Handler = Callable[[Request, Given], dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Operation:
    """One operation.

    name       as in EC2's documentation
    handler    (request, given) -> the values of the answer, named as in the model
    takes      parameters that are carried out, named as in the model; all others are refused
    ignores    parameters that change nothing here, and promise nothing: taken and left
    makes      what it makes, of errors.QUOTA
    """

    name: str
    handler: Handler
    takes: frozenset[str] = frozenset()
    ignores: frozenset[str] = frozenset()
    makes: str | None = None


def row(name: str, handler: Handler, takes: str = '', ignores: str = '', makes: str | None = None) -> Operation:
    """An Operation; names of parameters are words of a text."""
    return Operation(name, handler, frozenset(takes.split()), frozenset(ignores.split()), makes)


PAGED = ' Filters MaxResults NextToken'
