"""Who asks: identity, roles and request id of one request, as it travels through every service."""
from __future__ import annotations

from collections.abc import Mapping
import copy
import datetime
import enum
from typing import Any, cast
import uuid

from oslo_context import context

from nova import exception
from nova import utils


# Roles that allow more than reading; a face without rules of its own goes by them.
WRITERS = frozenset({'member', 'manager', 'admin', 'service'})


class Projects(enum.Enum):
    """What stands where a query takes the id of one project and means another number of them."""

    ALL = 'all projects'
    NONE = 'no project'


# Equal no id, and nothing that is missing: who forgets to say whose rows he wants gets an error, not everybody's.
ALL_PROJECTS = Projects.ALL
NO_PROJECT = Projects.NONE         # what everybody may see, where there is such a thing


def one_project(project_id: Projects | str) -> bool:
    """Whether a query is for the rows of one project; False for ALL_PROJECTS.

    :raises TypeError: it is neither: the caller has not said whose rows are requested
    """
    if project_id is ALL_PROJECTS:
        return False
    if isinstance(project_id, str) and project_id:
        return True
    raise TypeError(f'The id of a project or ALL_PROJECTS is wanted here, not {project_id!r}.')


def the_project(project_id: Any) -> str:
    """The id of a project, where no other value may be.

    :raises TypeError: it is none
    """
    if project_id is ALL_PROJECTS or not one_project(project_id):
        raise TypeError('The id of one project is wanted here, not ALL_PROJECTS.')
    return cast(str, project_id)


def covers(project_id: Any, owner: str | None) -> bool:
    """Whether the rows of a project, or of ALL_PROJECTS, are those of this owner, too.

    :raises TypeError: as one_project
    """
    return not one_project(project_id) or owner == project_id


def new_request_id() -> str:
    return 'req-' + str(uuid.uuid4())


class RequestContext(context.RequestContext):
    """The caller of one request. ``is_admin`` is decided once, by policy, when the request enters.

    oslo.log reads the context of the current thread, so that every line of a request carries its request id.

    :ivar observer: a nova.notify.Notifier, which records the actions on servers that this caller begins, or None
    :ivar credential_id: the application credential with which the token was made, None: another way. It stays in the
        process in which the request came in
    :ivar token_id: audit id of the user's token, which is no secret; None: not known.
    :ivar token_claims: nova.identity.tokens.Claims of a token of the embedded identity service.
        It stays in the process, too
    :ivar image_grant: what the task that is being done may do with images, see nova.image.grants; it does not travel
    :ivar sender_host: name of the compute host whose message this is of, None: a service of the control plane
    :ivar sender_version: VERSION of the service whose message this is of; None: it is of none
    :ivar signed_by: id of the key that has signed the message, see rpc/signatures.py
    :ivar token_expires_at: when the token ends with which the request came in (naive UTC); None: not known
    """

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
        """Let log lines of this thread carry this request id.

        A context that is made for a message, with ``overwrite=False``, does not do it, also where the thread has none:
        all later lines of the thread would carry the id of the first task.
        """
        if self._is_stored:
            super().update_store()

    def to_dict(self) -> dict[str, str | None]:
        values = super().to_dict()
        values['remote_address'] = self.remote_address
        values['token_expires_at'] = self.token_expires_at and self.token_expires_at.isoformat()
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any], **kwargs: Any) -> RequestContext:
        end = values.get('token_expires_at')
        return super().from_dict(values, remote_address=values.get('remote_address'),
                                 token_expires_at=end and datetime.datetime.fromisoformat(end), **kwargs)

    def granted(self, image_grant: str | None) -> RequestContext:
        """The same context with the image grant of a task."""
        made = copy.copy(self)
        made.image_grant = image_grant
        return made

    def token_has_run_out(self) -> bool:
        """Whether the token, which was good when the request came in, has come to its end since."""
        return self.token_expires_at is not None and utils.utcnow() >= self.token_expires_at

    def require_project(self) -> None:
        """:raises ProjectNeeded: the token is scoped to a domain, to the system, or to nothing"""
        if not self.project_id:
            scope = 'the system' if self.system_scope else 'a domain' if self.domain_id else 'nothing'
            raise exception.ProjectNeeded(scope=scope)

    @property
    def sees(self) -> Projects | str:
        """Whose things the caller sees: ALL_PROJECTS for administrators, else the id of his project.

        :raises ProjectNeeded: he has none
        """
        if self.is_admin:
            return ALL_PROJECTS
        self.require_project()
        return cast(str, self.project_id)

    def may_write(self) -> bool:
        """Whether the caller's roles allow more than reading in the project of the token."""
        return bool(self.is_admin or self.project_id and WRITERS & {role.lower() for role in self.roles or ()})


def admin_context(request_id: str | None = None) -> RequestContext:
    """The system itself: periodic tasks, start-up, reconcilers."""
    return RequestContext(is_admin=True, roles=['admin'], overwrite=False,
                          request_id=request_id or new_request_id())


def of_host(sent: RequestContext, project_id: str | None, user_id: str | None) -> RequestContext:
    """What is left of a context that a compute host has sent: no role, no right of the system.

    :param project_id, user_id: of the caller, as far as they are known otherwise
    """
    made = RequestContext(overwrite=False, request_id=sent.request_id, project_id=project_id, user_id=user_id,
                          auth_token=sent.auth_token)
    made.sender_host, made.signed_by = sent.sender_host, sent.signed_by
    return made


def caller_is(user_id: str | None, project_id: str | None) -> None:
    """Name the caller of the request that this thread serves, as soon as it is proven who that is."""
    current = context.get_current()
    if current is not None:
        current.user_id, current.project_id = user_id, project_id


def on_behalf_of(row: Mapping[str, Any]) -> RequestContext:
    """The system, for whom a row names: ``project_id``, ``user_id`` and, where it has one, ``request_id``."""
    ctx = admin_context(row.get('request_id'))
    ctx.project_id, ctx.user_id = row['project_id'], row['user_id']
    return ctx
