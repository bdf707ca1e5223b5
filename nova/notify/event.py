"""Domain event: a committed change."""
import dataclasses
import typing

from nova import context

Row = typing.Mapping[str, typing.Any]


class States(typing.TypedDict):
    """Columns of a server that ``instance.update`` depends on."""

    uuid: str
    vm_state: str
    task_state: str | None


@dataclasses.dataclass(frozen=True)
class Initiator:
    """Initiator of an event.

    ctx      context of the request
    binary   service in the publisher's id; None: the service that nova.notify.events names for the event
    host     host in the publisher's id; None: this host
    """

    ctx: context.RequestContext
    binary: str | None = None
    host: str | None = None


@dataclasses.dataclass(frozen=True)
class Event:
    """One event.

    name         name of a row of nova.notify.events
    phase        one of the row's phases
    server_uuid  uuid of the event's server, or None
    row          columns of the event's subject at the end of the transaction
    action       name of the event's instance action record, or None
    by           initiator
    about        {name: value} in addition to the row: fault, volume_id, old_state, …; see payloads.Subject
    """

    name: str
    phase: str | None
    server_uuid: str | None
    row: Row = dataclasses.field(repr=False)
    action: str | None
    by: Initiator
    about: typing.Mapping[str, typing.Any] = dataclasses.field(repr=False)

    def __str__(self) -> str:
        return self.name if self.phase is None else f'{self.name}.{self.phase}'
