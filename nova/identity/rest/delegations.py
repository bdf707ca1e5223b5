"""Handlers for trusts, access rules of application credentials, and revocation events."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from nova import exception
from nova.db.identity import directory as queries
from nova.db.tables.rows import IdentityAccessRulesRow, IdentityTrustsRow
from nova.identity.embedded import access_rules
from nova.identity.rest import operations
from nova.identity.rest import schemas
from nova.identity.rest.operations import Request
from nova.identity.rest.operations import Stored
from nova.identity.rest.resources import ACCESS_RULE
from nova.identity.rest.resources import EVENT
from nova.identity.rest.resources import ROLE
from nova.identity.rest.resources import TRUST
from nova.identity.rest.schemas import Page
from nova.web.resource import One
from nova.web.routes import Route

RowT = TypeVar('RowT', bound=queries.Row)

MOST_EVENTS = 5000


# ---- trusts

CREATE, DELETE, GET = 'identity:create_trust', 'identity:delete_trust', 'identity:get_trust'
LIST = 'identity:list_trusts'
OF_TRUSTOR, OF_TRUSTEE = (f'{LIST}_for_{user}' for user in ('trustor', 'trustee'))
LIST_ROLES, GET_ROLE = 'identity:list_roles_for_trust', 'identity:get_role_for_trust'
TRUSTOR, TRUSTEE = 'target.trust.trustor_user_id', 'target.trust.trustee_user_id'


def create_trust(req: Request) -> Stored:
    req.refuse_restricted()
    given = req.body
    req.authorize(CREATE, {TRUSTOR: given['trustor_user_id']})
    if given['trustor_user_id'] != req.caller.user_id:
        raise exception.Forbidden('Only the trustor can create a trust.')
    return req.service.trusts.create(
        req.caller, given['trustee_user_id'], given['project_id'], given['roles'], given['impersonation'],
        operations.end_of(given), given.get('remaining_uses'))


def _trust(req: Request, trust_id: str, rule: str) -> IdentityTrustsRow:
    """Return a trust if a rule allows access. If not, the trustor and trustee get 403, and other callers 404."""
    row = req.service.trusts.get(trust_id)
    users = {TRUSTOR: row['trustor_user_id'], TRUSTEE: row['trustee_user_id']}
    if req.caller.user_id not in users.values() and not req.allows(rule, users):
        raise exception.IdentityNotFound(noun='trust', id=trust_id)
    req.authorize(rule, users)
    return row


def list_trusts(req: Request) -> list[IdentityTrustsRow]:
    match = {name: req.query[name] for name in TRUST.filters if req.query.get(name)}
    asked = [(OF_TRUSTOR, {TRUSTOR: match['trustor_user_id']})] if 'trustor_user_id' in match else []
    asked += [(OF_TRUSTEE, {TRUSTEE: match['trustee_user_id']})] if 'trustee_user_id' in match else []
    if not any(req.allows(rule, users) for rule, users in asked):
        req.authorize(LIST)
    return req.service.trusts.matching(**match)


def delete_trust(req: Request, trust_id: str) -> None:
    req.refuse_restricted()
    _trust(req, trust_id, DELETE)
    req.service.trusts.delete(trust_id)


def show_trust_role(req: Request, trust_id: str, role_id: str) -> Stored:
    return _one_of(req.service.trusts.roles(_trust(req, trust_id, GET_ROLE)), 'role', role_id)


def _one_of(rows: Sequence[RowT], noun: str, row_id: str) -> RowT:
    """Return the row with an id, or raise IdentityNotFound."""
    row = next((row for row in rows if row['id'] == row_id), None)
    if row is None:
        raise exception.IdentityNotFound(noun=noun, id=row_id)
    return row


# ---- access rules

def list_access_rules(req: Request, user_id: str) -> list[IdentityAccessRulesRow]:
    match = {name: req.query[name] for name in ACCESS_RULE.filters if req.query.get(name)}
    return [row for row in req.service.list(queries.ACCESS_RULE, user_id=user_id)
            if all(row.get(name) == value for name, value in match.items())]


def show_access_rule(req: Request, user_id: str, rule_id: str) -> Stored:
    return _one_of(req.service.list(queries.ACCESS_RULE, id=rule_id, user_id=user_id), 'access rule', rule_id)


def delete_access_rule(req: Request, user_id: str, rule_id: str) -> None:
    req.refuse_restricted()
    show_access_rule(req, user_id, rule_id)
    req.service.delete_with('access rule', lambda conn, found: access_rules.delete(conn, user_id, found), rule_id)


# ---- revocation events

def list_events(req: Request) -> list[queries.Revocation]:
    """List revocation events, newest first. An event revokes a token, or the tokens that a user got before a time."""
    since = req.query.get('since')
    with req.service.db.reader() as conn:
        return queries.revocations(conn, None if since is None else operations.moment_of(since, 'since'), MOST_EVENTS)


TRUSTS = '/v3/OS-TRUST/trusts'
ONE = TRUSTS + '/{trust_id}'
RULES = '/v3/users/{user_id}/access_rules'
_TRUST, _ROLE = One(TRUST, 'show'), One(ROLE, 'show')
ROUTES = [
    Route('GET', TRUSTS, list_trusts, checks=(LIST, OF_TRUSTOR, OF_TRUSTEE),
                   query=schemas.Query(*TRUST.filters), answer=Page(TRUST, 'list')),
    Route('POST', TRUSTS, create_trust, checks=(CREATE,), status=201, answer=_TRUST,
                   body=schemas.Body(TRUST.content('create'), 'trust')),
    Route('GET', ONE, lambda req, trust_id: _trust(req, trust_id, GET), checks=(GET,), answer=_TRUST,
          name='show_trust'),
    Route('DELETE', ONE, delete_trust, checks=(DELETE,), status=204),
    Route('GET', ONE + '/roles', lambda req, trust_id: req.service.trusts.roles(_trust(req, trust_id, LIST_ROLES)),
          checks=(LIST_ROLES,), answer=Page(ROLE), name='list_trust_roles'),
    Route('GET', ONE + '/roles/{role_id}', show_trust_role, checks=(GET_ROLE,), answer=_ROLE),
    Route('GET', RULES, list_access_rules, 'identity:list_access_rules', answer=Page(ACCESS_RULE),
                   query=schemas.Query(*ACCESS_RULE.filters)),
    Route('GET', RULES + '/{rule_id}', show_access_rule, 'identity:get_access_rule',
                   answer=One(ACCESS_RULE, 'show')),
    Route('DELETE', RULES + '/{rule_id}', delete_access_rule, 'identity:delete_access_rule', status=204),
    Route('GET', '/v3/OS-REVOKE/events', list_events, 'identity:list_revoke_events',
                   query=schemas.Query('since'), answer=Page(EVENT, most=lambda: MOST_EVENTS)),
]
