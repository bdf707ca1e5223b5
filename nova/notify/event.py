"""A domain event: something has happened, and is committed."""
import dataclasses
import typing

from nova import context

Row = typing.Mapping[str, typing.Any]


@dataclasses.dataclass(frozen=True)
class By:
    """Who did it.

    ctx      of the request that it is done for
    binary   service that it happened on; None: the one that the event's row names
    host     of that service; None: this one
    """

    ctx: context.RequestContext
    binary: str | None = None
    host: str | None = None


@dataclasses.dataclass(frozen=True)
class Event:
    """
    name         of a row of nova.notify.events
    phase        one of the row's phases
    server_uuid  of the server that it is about; None: it is about none
    row          columns of what it is about, as the transaction leaves them
    action       name of the instance action's record that it belongs to, or None
    by           who did it
    about        {name: value} of what the row does not have: fault, volume_id, old_state, …; see payloads.Subject
    """

    name: str
    phase: str | None
    server_uuid: str | None
    row: Row = dataclasses.field(repr=False)
    action: str | None
    by: By
    about: typing.Mapping[str, typing.Any] = dataclasses.field(repr=False)

    def __str__(self) -> str:
        return self.name if self.phase is None else f'{self.name}.{self.phase}'
