"""Requests of the Identity API, and functions with which handlers read query parameters."""
from __future__ import annotations

import collections.abc
import datetime
import typing
import urllib.parse
from wsgiref.types import WSGIEnvironment

from nova import context
from nova import exception
from nova import policy
from nova.db.identity import directory as queries
from nova.identity.embedded import directory
from nova.identity.tokens import TokenData
from nova.json_types import Json
from nova.json_types import JsonObject
from nova.web import request

if typing.TYPE_CHECKING:
    from nova.identity.embedded.service import IdentityService

Stored = queries.Row | dict[str, Json | datetime.datetime]  # a row of the directory, or a dictionary made from rows
RowT = typing.TypeVar('RowT', bound=collections.abc.Mapping[str, object])

HASHES = (401, 403, 429)     # error codes of public operations that verify a password

# {variable of a path: names by which policy rules refer to it}
_ATTRIBUTES = {'domain_id': ('target.domain.id',), 'project_id': ('target.project.id',), 'user_id': (
    'user_id', 'target.user.id', 'target.credential.user_id'), 'group_id': ('target.group.id',)}
# {kind of a resource in a path: columns that rules may compare}
_COMPARED: dict[queries.Noun[typing.Any], tuple[str, ...]] = {
    queries.PROJECT: ('domain_id',), queries.USER: ('domain_id',), queries.GROUP: ('domain_id',),
    queries.ROLE: ('domain_id', 'name')}
_OF_DOMAIN = ('target.domain_id', 'target.domain.id', *(f'target.{noun}.domain_id' for noun in (
    'project', 'user', 'group')))


class Request(request.BaseRequest):
    """Request to the Identity API, the argument of handlers.

    caller    data of the caller's token; not set for public operations
    actor     context of the caller for policy rules; not set for public operations
    query     {name of a query parameter: its last value}
    """

    __slots__ = ('service', 'caller', 'actor', 'policy')

    def __init__(self, environ: WSGIEnvironment, service: IdentityService, rules: policy.Policy) -> None:
        super().__init__(environ)
        self.service, self.policy = service, rules
        self.caller: TokenData
        self.actor: context.RequestContext

    def ask_as(self, caller: TokenData) -> None:
        """Set the caller."""
        self.caller = caller
        self.actor = context.RequestContext(
            user_id=caller.user_id, project_id=caller.project_id, domain_id=caller.domain_id,
            system_scope=caller.system_scope, roles=list(caller.roles), user_domain_id=caller.user_domain_id,
            project_domain_id=caller.project_domain_id, overwrite=False)

    @property
    def domain_id(self) -> str:
        """Domain of the resources that the caller creates and lists, unless the request names another domain."""
        return self.caller.domain_id or self.caller.project_domain_id or directory.DOMAIN['id']

    @property
    def is_admin(self) -> bool:
        return self.policy.allows(self.actor, self.policy.service.admin, {})

    def allows(self, rule: str, target: collections.abc.Mapping[str, str | None] | None = None) -> bool:
        """Return whether a rule allows the caller to use an operation, and accepts the scope of the caller's token.

        :param target: {name in rules: value} of the resource's attributes
        """
        caller = self.actor
        scope = 'system' if caller.system_scope else 'domain' if caller.domain_id else 'project'
        return scope in self.policy.service.scopes[rule] and self.policy.allows(caller, rule, target or {})

    def authorize(self, rule: str, target: collections.abc.Mapping[str, str | None] | None = None) -> None:
        """Check a rule.

        :param target: as of ``allows``
        :raises Forbidden: it does not allow the operation
        """
        if not self.allows(rule, target):
            raise exception.Forbidden('You are not authorized to perform the requested action.')

    def expect_roles(self, role_ids: collections.abc.Set[str], message: str) -> None:
        """Check that the caller is an administrator or has these roles.

        :raises Forbidden: the caller lacks one of them
        """
        if not self.is_admin and not role_ids <= {role['id'] for role in self.caller.role_rows}:
            raise exception.Forbidden(message)

    def refuse_restricted(self) -> None:
        """Refuse tokens that must not be used to create other credentials, which could last longer or allow more.

        These are tokens of trusts, and of application credentials that are restricted or have access rules.
        """
        credential = self.caller.credential
        if credential and (credential['restricted'] or 'access_rules' in credential):
            raise exception.Forbidden('A restricted application credential may not manage credentials.')
        if self.caller.trust:
            raise exception.Forbidden('The token of a trust may not manage credentials or trusts.')

    def authorize_path(self, rule: str, parts: collections.abc.Mapping[str, str]) -> None:
        """Check a rule for the resources in a path. If the path names none, check it for the domain of a list.

        A missing resource is treated as a resource of the caller's domain, so that the response is 404 and not 403.

        :param parts: {name: value} of the path
        :raises Forbidden: the rule does not allow the operation
        """
        compared = self.policy.compares(rule)
        target = {name: parts[part] for part, names in _ATTRIBUTES.items() if part in parts for name in names}
        for noun, columns in _COMPARED.items():
            wanted = [column for column in columns if f'target.{noun}.{column}' in compared]
            if wanted and f'{noun}_id' in parts:
                row = self.service.find(noun, id=parts[f'{noun}_id']) or {'domain_id': self.domain_id}
                target |= {f'target.{noun}.{column}': str(row[column]) for column in wanted if column in row}
        self.authorize(rule, target if parts else self.in_domain(self.query.get('domain_id') or self.domain_id))

    def in_domain(self, domain_id: str) -> dict[str, str]:
        """Return {name: domain_id} for all names by which policy rules refer to a resource's domain."""
        return dict.fromkeys(_OF_DOMAIN, domain_id)

    @property
    def remote_address(self) -> str:
        """Client address."""
        return self.environ.get('REMOTE_ADDR') or ''


# {segment of a path: feature of Keystone that the embedded service does not have}
_KEYSTONE = {
    'OS-FEDERATION': 'federated identities', 'OS-OAUTH1': 'OAuth 1.0 consumers and tokens',
    'OS-OAUTH2': 'OAuth 2.0 tokens', 'OS-ENDPOINT-POLICY': 'endpoint policies',
    'OS-SIMPLE-CERT': 'certificates of tokens', 'OS-PKI': 'certificates of tokens'}


def keystone_feature(path: str) -> str | None:
    """Return the Keystone feature of a path if the embedded service does not have this feature, otherwise None."""
    segments = path.strip('/').split('/')
    if segments[:2] == ['v3', 'domains'] and 'config' in segments[2:4]:
        return 'configurations of domains'
    return next((feature for name, feature in _KEYSTONE.items() if name in segments[1:4]), None)


def url_of(req: Request) -> str:
    """Return the request's URL for the self link of a list."""
    query = urllib.parse.urlencode(req.query)
    return req.url + (f'?{query}' if query else '')


def expect_id(given: JsonObject, row_id: str) -> None:
    """Check that the body of an update has no other id than the path; raises BadRequest."""
    if given.get('id', row_id) != row_id:
        raise exception.BadRequest('The id of a resource cannot be changed.')


def flag(query: collections.abc.Mapping[str, str], name: str) -> bool:
    """Parse a boolean query parameter; a parameter without a value is true."""
    return query.get(name, '0').lower() not in ('0', 'false', 'no', 'off')


# operators of filters, as in ``name__contains=text``
_OPERATORS: dict[str, collections.abc.Callable[[str, str], bool]] = {
    'contains': lambda value, text: text in value, 'startswith': str.startswith, 'endswith': str.endswith}


def compared(req: Request, rows: collections.abc.Sequence[RowT],
             names: collections.abc.Collection[str]) -> collections.abc.Sequence[RowT]:
    """Return the rows that match the inexact filters of the query, such as ``name__icontains=web``.

    :raises BadRequest: unknown operator
    """
    for key, text in req.query.items():
        name, separator, operator = key.partition('__')
        if separator and name in names:
            ignore_case = operator.startswith('i')
            matches = _OPERATORS.get(operator.removeprefix('i'))
            if matches is None:
                raise exception.BadRequest(f'Unknown filter: {key[:255]}.')
            fold = str.lower if ignore_case else str
            rows = [row for row in rows if isinstance(value := row.get(name), str) and matches(fold(value), fold(text))]
    return rows


def moment_of(text: str, name: str) -> datetime.datetime:
    """Parse an ISO 8601 time into a naive UTC datetime; without a zone it is UTC."""
    try:
        moment = datetime.datetime.fromisoformat(text)
        return moment.astimezone(datetime.UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except (ValueError, OverflowError):
        raise exception.BadRequest(f'{name} is not an ISO 8601 time.') from None


def end_of(given: JsonObject) -> datetime.datetime | None:
    """Parse ``expires_at`` of a request body; None if it is missing or null."""
    return None if given.get('expires_at') is None else moment_of(str(given['expires_at']), 'expires_at')
