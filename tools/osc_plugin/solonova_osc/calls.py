"""Requests to the compute API with the client's session."""
from __future__ import annotations

from typing import Any

from openstack import exceptions
from osc_lib.command import command

MICROVERSION = '2.104'


class Calls:
    """The compute API of the cloud that the client uses.

    :param compute: the compute proxy of openstacksdk
    """

    def __init__(self, compute: Any) -> None:
        self._compute = compute

    def __call__(self, method: str, path: str, body: object = None, **query: object) -> Any:
        """Send a request; return the JSON document of the response, None without one.

        :param query: parameters; None leaves one out
        :raises openstack.exceptions.HttpException: with the message of the service
        """
        response = self._compute.request(path, method, json=body, microversion=MICROVERSION, params={
            name: value for name, value in query.items() if value is not None})
        exceptions.raise_from_response(response)
        return response.json() if response.content else None

    def stream(self, path: str, **query: object) -> Any:
        """Open a response whose lines are read while they arrive."""
        response = self._compute.get(path, stream=True, params=query, timeout=None)
        exceptions.raise_from_response(response)
        return response

    def groups(self) -> str:
        """Return the address of server groups with several policies: it is outside the versioned API."""
        base = self._compute.get_endpoint().rstrip('/').rpartition('/v2')[0]
        return f'{base}/v3.0/{self._compute.get_project_id()}/groups'

    def id_of(self, kind: str, name: str) -> str:
        """Return the id of an image, a flavor, a server or an aggregate by its name or id."""
        return str(getattr(self._compute, f'find_{kind}')(name, ignore_missing=False).id)


class Command(command.Command):
    """A command that calls the compute API."""

    @property
    def calls(self) -> Calls:
        return Calls(self.app.client_manager.sdk_connection.compute)


class ShowOne(Command, command.ShowOne):
    """A command that prints one object."""


class Lister(Command, command.Lister):
    """A command that prints a table."""


def table(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> tuple[tuple[str, ...], Any]:
    """Return the table of a Lister."""
    return columns, ([row.get(column) for column in columns] for row in rows)


def one(row: dict[str, Any]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Return the object of a ShowOne."""
    return tuple(row), tuple(row.values())


def pairs(words: list[str] | None) -> dict[str, str]:
    """Return {key: value} of ``key=value`` words."""
    return dict(word.partition('=')[::2] for word in words or ())
