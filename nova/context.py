"""Who asks: identity, roles and request id of one request, as it travels through every service."""
import datetime
import uuid

from oslo_context import context

from nova import utils


# Roles that allow more than reading; a face without rules of its own goes by them.
WRITERS = frozenset({'member', 'manager', 'admin', 'service'})


def new_request_id():
    return 'req-' + str(uuid.uuid4())


class RequestContext(context.RequestContext):
    """The caller of one request. ``is_admin`` is decided once, by policy, when the request enters.

    oslo.log reads the context of the current thread, so that every line of a request carries its request id.

    :ivar observer: who hears, by ``begun(ctx, action, before, row, about)``, of an action on a server that this caller
        has begun: a notifier, or None
    :ivar token_expires_at: when the token ends with which the request came in (naive UTC); None: nobody said
    """

    observer = None

    def __init__(self, *, remote_address=None, service_roles=None, token_expires_at=None, **kwargs):
        super().__init__(service_roles=service_roles or [], **kwargs)
        self.remote_address, self.token_expires_at = remote_address, token_expires_at

    def to_dict(self):
        values = super().to_dict()
        values['remote_address'] = self.remote_address
        values['token_expires_at'] = self.token_expires_at and self.token_expires_at.isoformat()
        return values

    @classmethod
    def from_dict(cls, values, **kwargs):
        end = values.get('token_expires_at')
        return super().from_dict(values, remote_address=values.get('remote_address'),
                                 token_expires_at=end and datetime.datetime.fromisoformat(end), **kwargs)

    def token_has_run_out(self):
        """Whether the token, which was good when the request came in, has come to its end since."""
        return self.token_expires_at is not None and utils.utcnow() >= self.token_expires_at

    def may_write(self):
        """Whether the caller's roles allow more than reading in the project of the token."""
        return bool(self.is_admin or self.project_id and WRITERS & {role.lower() for role in self.roles or ()})


def admin_context(request_id=None):
    """The system itself: periodic tasks, start-up, reconcilers."""
    return RequestContext(is_admin=True, roles=['admin'], overwrite=False,
                          request_id=request_id or new_request_id())


def on_behalf_of(row):
    """The system, for whom a row names: ``project_id``, ``user_id`` and, where it has one, ``request_id``."""
    ctx = admin_context(row.get('request_id'))
    ctx.project_id, ctx.user_id = row['project_id'], row['user_id']
    return ctx
