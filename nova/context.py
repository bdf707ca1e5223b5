"""Context of a request: the caller's identity, roles and request id. Every message to another service contains it."""
from __future__ import annotations

from collections.abc import Mapping
import copy
import datetime
import enum
from typing import Any, cast, Self, TYPE_CHECKING, TypeGuard
import uuid

from oslo_context import context

from nova import exception
from nova import utils

if TYPE_CHECKING:
    from nova.json_types import JsonObject


class Projects(enum.Enum):
    """Special values of parameters that otherwise contain the id of one project."""

    ALL = 'all projects'
    NONE = 'no project'


# These values differ from all ids and from None. A query with None by mistake fails instead of returning all projects.
ALL_PROJECTS = Projects.ALL
NO_PROJECT = Projects.NONE         # selects only the public resources of a table


def one_project(project_id: Projects | str) -> TypeGuard[str]:
    """Whether a query is for one project; False for ALL_PROJECTS.

    :raises TypeError: ``project_id`` is neither an id nor ALL_PROJECTS
    """
    if project_id is ALL_PROJECTS:
        return False
    if isinstance(project_id, str) and project_id:
        return True
    raise TypeError(f'Expected the id of a project or ALL_PROJECTS, not {project_id!r}.')


def the_project(project_id: Projects | str | None) -> str:
    """Return a value after checking that it is the id of one project.

    :raises TypeError: ``project_id`` is not an id
    """
    if not isinstance(project_id, str) or not project_id:
        raise TypeError(f'Expected the id of one project, not {project_id!r}.')
    return project_id


def covers(project_id: Projects | str, owner: str | None) -> bool:
    """Whether a query for a project, or for ALL_PROJECTS, returns the resources of the project ``owner``.

    :raises TypeError: see one_project
    """
    return not one_project(project_id) or owner == project_id


def new_request_id() -> str:
    return 'req-' + str(uuid.uuid4())


class RequestContext(context.RequestContext):
    """Context of a request. ``is_admin`` is evaluated once, by policy, when the request arrives.

    oslo.log reads the context of the current thread, so each log line of a request has its request id.

    :ivar rules: nova.policy.Policy of the network API that serves the request, or None. Not sent to other processes
    :ivar observer: nova.notify.Notifier that records the caller's actions on servers, or None
    :ivar credential_id: application credential or trust of the token, or None. Not sent to other processes
    :ivar token_id: audit id of the user's token, which is not secret, or None if unknown
    :ivar token_claims: nova.identity.tokens.Claims of a token of the embedded identity service. Not sent to other
     processes
    :ivar image_grant: image permission of the current task, see nova.image.grants. Not sent to other processes
    :ivar sender_host: compute host that sent the message, or None for a service of the control plane
    :ivar sender_version: VERSION of the service that sent the message, or None if there is no message
    :ivar signed_by: id of the key that signed the message, see rpc/signatures.py
    :ivar token_expires_at: expiry of the token (naive UTC), or None if unknown
    """

    rules: Any = None
    observer: Any = None
    credential_id: str | None = None
    token_id: str | None = None
    token_claims: Any = None
    image_grant: str | None = None
    sender_host: str | None = None
    sender_version: int | None = None
    signed_by: str | None = None

    def __init__(self, *, remote_address: str | None = None, service_roles: list[str] | None = None,
                 token_expires_at: datetime.datetime | None = None, overwrite: bool = True, **kwargs: Any) -> None:
        self._is_stored = overwrite
        super().__init__(service_roles=service_roles or [], overwrite=overwrite, **kwargs)
        self._is_stored = True
        self.remote_address, self.token_expires_at = remote_address, token_expires_at

    def update_store(self) -> None:
        """Store this context for the log lines of this thread.

        A message's context has ``overwrite=False`` and is never stored. Otherwise later log lines of the thread would
        have the message's request id.
        """
        if self._is_stored:
            super().update_store()

    def to_dict(self) -> dict[str, str | None]:
        values = super().to_dict()
        values['remote_address'] = self.remote_address
        values['token_expires_at'] = self.token_expires_at and self.token_expires_at.isoformat()
        return values

    @classmethod
    def from_dict(cls, values: JsonObject, **kwargs: object) -> Self:
        end = values.get('token_expires_at')
        return super().from_dict(values, remote_address=values.get('remote_address'),
                                 token_expires_at=end and datetime.datetime.fromisoformat(str(end)), **kwargs)

    def granted(self, image_grant: str | None) -> RequestContext:
        """Return a copy of the context with a task's image grant, which lists the images that the task may use."""
        made = copy.copy(self)
        made.image_grant = image_grant
        return made

    def token_has_expired(self) -> bool:
        """Whether the token has expired since the request arrived."""
        return self.token_expires_at is not None and utils.utcnow() >= self.token_expires_at

    def require_project(self) -> None:
        """:raises ProjectNeeded: the token is scoped to a domain, to the system, or unscoped"""
        if not self.project_id:
            scope = 'the system' if self.system_scope else 'a domain' if self.domain_id else 'nothing'
            raise exception.ProjectNeeded(scope=scope)

    @property
    def sees(self) -> Projects | str:
        """The projects that the caller sees: ALL_PROJECTS for administrators, otherwise the id of the caller's project.

        :raises ProjectNeeded: the token has no project
        """
        if self.is_admin:
            return ALL_PROJECTS
        self.require_project()
        return cast(str, self.project_id)


def admin_context(request_id: str | None = None) -> RequestContext:
    """Return the context for work of the system itself: periodic tasks, start-up, reconcilers."""
    return RequestContext(is_admin=True, roles=['admin'], overwrite=False,
                          request_id=request_id or new_request_id())


def of_host(sent: RequestContext, project_id: str | None, user_id: str | None) -> RequestContext:
    """Return the context of a message from a compute host, without roles and administrator rights.

    :param project_id, user_id: the caller, if known from a source other than the host
    """
    made = RequestContext(overwrite=False, request_id=sent.request_id, project_id=project_id, user_id=user_id,
                          auth_token=sent.auth_token)
    made.sender_host, made.signed_by = sent.sender_host, sent.signed_by
    return made


def set_caller(user_id: str | None, project_id: str | None) -> None:
    """Set the authenticated caller in the context of the current request."""
    current = context.get_current()
    if current is not None:
        current.user_id, current.project_id = user_id, project_id


def on_behalf_of(row: Mapping[str, Any]) -> RequestContext:
    """Return an administrator's context with ``project_id``, ``user_id`` and, if present, ``request_id`` of a row."""
    ctx = admin_context(row.get('request_id'))
    ctx.project_id, ctx.user_id = row['project_id'], row['user_id']
    return ctx
