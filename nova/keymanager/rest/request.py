"""Request to a handler of the Key Manager API."""
from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast, TYPE_CHECKING
from wsgiref.types import WSGIEnvironment

from nova import exception
from nova.db.audit import log
from nova.db.key_manager import records
from nova.db.tables import key_manager as t
from nova.web import bodies
from nova.web.request import BaseRequest

if TYPE_CHECKING:
    from nova.db.engine import Table
    from nova.db.key_manager.records import Listed
    from nova.db.tables.rows import KeyContainersRow, KeyOrdersRow, KeySecretsRow
    from nova.keymanager.store import KeyStore
    from nova.policy import Policy
    from nova.web.routes import Route

SECRET, CONTAINER, ORDER = 'secret', 'container', 'order'  # types of resources; names of policy rules begin with them
TABLES: dict[str, Table[Any]] = {SECRET: t.key_secrets, CONTAINER: t.key_containers}
MAX_BODY = 64 * 1024                     # maximum bytes of a request; the limit of a payload is lower
MAX_ID = 64                              # maximum characters of an id in a database query


class KeyManagerRequest(BaseRequest):
    """Request to a handler.

    store      the KeyStore
    version    minor version of the API; 0 by default
    is_base64  whether the body is a payload in base64
    """

    __slots__ = ('store', 'is_base64', '_policy')

    def __init__(self, environ: WSGIEnvironment, store: KeyStore, rules: Policy) -> None:
        super().__init__(environ)
        self.store, self.version, self.is_base64, self._policy = store, 0, False, rules

    def authorize(self, rule: str, kind: str = '', row: Listed | KeyOrdersRow | None = None,
                  readers: Collection[str] = ()) -> None:
        """Check a rule.

        :param kind, row: type and row of the resource; '' and None: the rule is checked for the caller's project
        :param readers: users in the access control list of the resource
        :raises PolicyDenied: the rule does not allow the caller to use the resource
        """
        ctx = self.context
        target = {'project_id': ctx.project_id, 'user_id': ctx.user_id, 'enforce_new_defaults': 'True'}
        if row is not None:
            target |= {f'target.{kind}.project_id': row['project_id'], f'target.{kind}.creator_id': row['creator_id']}
            access = row.get('project_access')
            if access is not None:
                target |= {f'target.{kind}.read_project_access': str(bool(access)),
                           f'target.{kind}.read': 'read' if ctx.user_id in readers else ''}
        self._policy.authorize(ctx, rule, target)

    def secret(self, ident: str, rule: str) -> KeySecretsRow:
        """Return a secret that the rule allows the caller to use; for errors see ``_found``."""
        return cast('KeySecretsRow', self._found(SECRET, ident, rule))

    def container(self, ident: str, rule: str) -> KeyContainersRow:
        """Return a container that the rule allows the caller to use; for errors see ``_found``."""
        return cast('KeyContainersRow', self._found(CONTAINER, ident, rule))

    def listed(self, kind: str, ident: str, rule: str) -> Listed:
        """Return a secret or container that the rule allows the caller to use; for errors see ``_found``."""
        return self._found(kind, ident, rule)

    def _found(self, kind: str, ident: str, rule: str) -> Listed:
        """Return a row that the rule allows the caller to use.

        :raises NotFound: the row does not exist, or has expired
        :raises PolicyDenied: the rule does not allow the caller to use the row
        """
        with self.store.db.reader() as conn:
            row = records.get(conn, TABLES[kind], ident[:MAX_ID])
            readers = records.users(conn, row['id']) if row and row['acl_created_at'] is not None else []
        if row is None:
            raise exception.NotFound(f'{kind.capitalize()} {ident[:MAX_ID]} could not be found.')
        log.belongs_to(row['project_id'])
        self.authorize(rule, kind, row, readers)
        return cast('Listed', row)

    def document(self) -> dict[str, str]:
        """Return the validated object in the body of a DELETE; all of the object's values are texts.

        :raises BadRequest: the body is missing or invalid
        """
        body = cast('Route', self.route).body
        return body.validate(bodies.parse(bodies.read(self.environ, MAX_BODY)), self.version)

    def ref(self, path: str) -> str:
        """Return the URL of a resource.

        :param path: below /v1
        """
        return f'{self.root_url.rstrip("/")}/v1/{path}'
