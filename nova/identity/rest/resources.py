"""Fields of the Identity API: a row for each field of each resource."""
from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any, TYPE_CHECKING

from nova import exception
from nova import utils
from nova.db.tables import identity as t
from nova.identity.embedded import access_rules
from nova.identity.embedded import effective_roles
from nova.identity.embedded import password_rules
from nova.identity.rest import operations
from nova.identity.rest import schemas as s
from nova.identity.rest.schemas import Kind
from nova.identity.rest.schemas import linked
from nova.identity.rest.schemas import maybe
from nova.identity.rest.schemas import obj
from nova.identity.rest.schemas import OpenKind
from nova.web.fields import ABSENT
from nova.web.fields import Constant
from nova.web.fields import exact_moment
from nova.web.resource import closed
from nova.web.resource import Converted
from nova.web.resource import Field
from nova.web.resource import Getter
from nova.web.resource import Resource
from nova.web.resource import Schema
from nova.web.resource import shape
from nova.web.resource import View

if TYPE_CHECKING:
    from nova.db.tables.rows import IdentityTrustsRow
    from nova.identity.embedded.catalog import Catalog
    from nova.identity.rest.operations import Request
    from nova.identity.tokens import TokenData
    from nova.json_types import JsonObject

Row = Mapping[str, Any]
WRITE: dict[str, Any] = {'write': 'create update'}


def _no_domain(_name: str, value: bool | str) -> bool | str:
    if str(value).lower() == 'true':
        raise exception.Forbidden('Only a project can act as a domain.')
    return value


def _without_nul(name: str, value: str) -> str:
    if '\0' in value:                    # PostgreSQL cannot store it
        raise exception.BadRequest(f'Invalid input for policy.{name}: invalid (pattern).')
    return value


def _segment(name: str, value: str) -> str:
    if '/' in value:                     # no path would name the region
        raise exception.BadRequest(f'Invalid input for region.{name}: it must not contain "/".')
    return value


def project_flag(name: str, value: bool | str) -> bool:
    """Parse a flag of a project; raises BadRequest."""
    if value not in (True, False, 'True', 'TRUE', 'true', 'False', 'FALSE', 'false'):
        raise exception.BadRequest(f'Invalid input for project.{name}: invalid (type).')
    return str(value).lower() == 'true'


def _present(name: str) -> Getter:
    """Return the getter of a column; responses omit the field if the column is null."""
    return lambda row, req: ABSENT if row.get(name) is None else row[name]


def _given(name: str) -> Getter:
    """Return the getter of a column; responses omit the field if the row lacks the column."""
    return lambda row, req: row.get(name, ABSENT)


def _or_null(name: str) -> Getter:
    """Return the getter of a column in which '' stands for null."""
    return lambda row, req: row[name] or None


def _time(moment: datetime.datetime | None) -> str | None:
    """Format a time of a token or receipt, with microseconds and a Z. Times of users and credentials have no zone."""
    return None if moment is None else moment.strftime('%Y-%m-%dT%H:%M:%S.%fZ')


_EXACT: Schema = {'type': ['string', 'null'], 'pattern': r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$'}
_TEXT, _REF = maybe(s.TEXT), maybe(s.ID)
# Projects and roles cannot be made immutable, so ``immutable: true`` is refused.
_NO_OPTIONS: Schema = {**obj(immutable={'enum': [False, None]}), 'additionalProperties': False}
_ID = Field('id', s.STRING, 'id', 'ID.')
_IN_DOMAIN = Field('domain_id', s.STRING, 'domain_id', 'Domain; by default, the domain of the token.',
                   filter='domain_id', accepts=_REF, **WRITE)
# the field is_domain of resources that are not projects
_NO_DOMAIN = Field('is_domain', s.FLAG, None, 'Must be false.', '', accepts=Converted({}, _no_domain), **WRITE)


def _name(length: int, key: str = 'name', doc: str = 'Name.', **more: Any) -> Field:
    return Field(key, s.STRING, key, doc, filter=key, accepts=s.name(length), **({'required': True} | WRITE | more))


def _description(type_: Schema = s.STRING_OR_NULL, **more: Any) -> Field:
    return Field('description', type_, **({'get': 'description'} | more), doc='Description.', accepts=_TEXT, **WRITE)


def _enabled(of: str) -> Field:
    return Field('enabled', s.FLAG, 'enabled', f'Whether {of} is enabled.', filter='enabled', **WRITE)


# ---- domains, projects, users, roles and groups

SYSTEM = Resource('', 'system', None, (Field('all', {'const': True}, Constant(True), 'Always true.'),))
TAGS = s.array({**s.ID, 'maxLength': 255, 'pattern': r'^[^,/\x00]*$'}, 0, 80, uniqueItems=True)
TAG_FILTERS = ('tags', 'tags-any', 'not-tags', 'not-tags-any')

DOMAINS = OpenKind('domain', 'domains', t.identity_domains, (
    _ID,
    _name(64),
    _description(s.STRING),
    _enabled('users and projects of the domain'),
    Field('tags', s.STRINGS, lambda row, req: row.get('tags') or [], 'Tags.', column='tags', accepts=TAGS, **WRITE),
    Field('options', closed(), Constant({}), 'Always empty.', accepts=_NO_OPTIONS, **WRITE),
    linked('domains/{id}'),
), {'description': '', 'enabled': True, 'tags': []})

PROJECT = OpenKind('project', 'projects', t.identity_projects, (
    _ID,
    Field('options', closed(), Constant({}), 'Always empty.', accepts=_NO_OPTIONS, **WRITE),
    _name(64),
    _description(s.STRING),
    _enabled('it'),
    Field('domain_id', s.STRING_OR_NULL, 'domain_id', 'Domain; null if the project acts as a domain.',
          filter='domain_id', accepts=_REF, **WRITE),
    Field('parent_id', s.STRING_OR_NULL, lambda row, req: row['parent_id'] or row['domain_id'],
          'Parent project, or the domain of a top-level project.', column='parent_id', filter='parent_id',
          accepts=_REF, **WRITE),
    Field('is_domain', s.FLAG, lambda row, req: row.get('is_domain', False), 'Whether the project acts as a domain.',
          accepts=Converted({'type': ['boolean', 'string']}, project_flag), **WRITE),
    Field('tags', s.STRINGS, 'tags', 'Tags.', accepts=TAGS, **WRITE),
    linked('projects/{id}'),
), {'description': ''}, {'parent_id': 'parent', 'domain_id': 'domain'})
RELATED = OpenKind('project', 'projects', None, (*PROJECT.fields, *(
    Field(name, {'type': ['array', 'object', 'null']}, _given(name),
          f'Projects {where} this project: a list, or nested IDs.', optional=True)
    for name, where in (('parents', 'above'), ('subtree', 'below')))))

# Refuse unsupported options; null removes an option. Rules may name unknown methods, but then no login satisfies them.
_METHOD: Schema = {'type': 'string', 'minLength': 1, 'maxLength': 64}
_RULES = s.array(s.array(_METHOD, 1, 8, uniqueItems=True), 0, 16, uniqueItems=True)
_OPTIONS: Schema = {**obj(
    multi_factor_auth_enabled=maybe(s.FLAG), ignore_password_expiry=maybe(s.FLAG),
    multi_factor_auth_rules=maybe(_RULES)), 'additionalProperties': False}
USER = OpenKind('user', 'users', t.identity_users, (
    _ID,
    _name(255),
    _description(s.STRING, get=_present('description'), column='description', optional=True),
    _enabled('the user'),
    _IN_DOMAIN,
    _NO_DOMAIN,
    Field('password', s.STRING, None, 'Password; it is not shown.', '', column='password', accepts=maybe(s.SECRET),
          **WRITE),
    Field('default_project_id', s.STRING, _present('default_project_id'), 'Project of a login without a scope.',
          column='default_project_id', optional=True, accepts=_REF, **WRITE),
    Field('email', s.STRING, _present('email'), 'Address.', column='email', optional=True,
          accepts=maybe({**s.TEXT, 'maxLength': 255}), **WRITE),
    Field('options', {'type': 'object'}, lambda row, req: row.get('options') or {}, 'Options of the login.',
          column='options', accepts=_OPTIONS, **WRITE),
    Field('password_expires_at', _EXACT, lambda row, req: utils.exact_time(password_rules.end_of(row)),
          'End of the password.'),
    linked('users/{id}'),
), fixed={'domain_id': 'domain'})
PASSWORD = obj(['password', 'original_password'], password=s.SECRET,
               original_password={'type': 'string', 'maxLength': 4096})

ROLE = OpenKind('role', 'roles', t.identity_roles, (
    _ID,
    Field('options', closed(immutable=s.FLAG),
          lambda row, req: {'immutable': True} if effective_roles.is_default(row) else {},
          'Default roles are immutable.', accepts=_NO_OPTIONS, **WRITE),
    _name(255),
    _description(),
    Field('domain_id', s.STRING_OR_NULL, 'domain_id', 'Domain of a domain-specific role.', filter='domain_id',
          accepts=_REF, **WRITE),
    _NO_DOMAIN,
    linked('roles/{id}'),
), fixed={'domain_id': 'domain'})
IMPLIED = Resource('role', 'roles', None, (_ID, Field('name', s.STRING, 'name', 'Name.'), linked('roles/{id}')))
_IMPLIED = IMPLIED.view('show').schema(1)
_SEVERAL_IMPLIED: Schema = {'type': 'array', 'items': _IMPLIED}
INFERENCE, INFERENCES = (shape(prior_role=_IMPLIED, implies=implied) for implied in (
    _IMPLIED, _SEVERAL_IMPLIED))

GROUP = OpenKind('group', 'groups', t.identity_groups, (
    _ID,
    _name(64),
    _description(s.STRING),
    _IN_DOMAIN,
    linked('groups/{id}'),
), {'description': ''}, {'domain_id': 'domain'})

POLICY = OpenKind('policy', 'policies', t.identity_policies, (
    _ID,
    _name(255, key='type', doc='Media type of the document.'),
    Field('blob', s.STRING, 'blob', 'Policy document, which the Identity service stores but does not evaluate.',
          required=True, accepts=Converted({'type': 'string', 'maxLength': 65536}, _without_nul), **WRITE),
    linked('policies/{id}'),
))

# ---- role assignments: rows of grants.Grants


def _kind(row: Row) -> str:
    return str(row['target_type'].removeprefix('below_'))


def _inherited(row: Row) -> bool:
    return row['target_type'] in effective_roles.BELOW.values()


def _with_name(req: Request, row_id: str, **named: Any) -> JsonObject:
    return {'id': row_id, **(named if operations.flag(req.query, 'include_names') else {})}


def _actor(kind: str) -> Getter:
    return lambda row, req: ABSENT if row['actor'] != kind else _with_name(
        req, row['actor_id'], name=row['actor_name'], domain=row['actor_domain'])


def _scope(row: Row, req: Request) -> JsonObject:
    kind = _kind(row)
    shown: JsonObject = {'system': {'all': True}} if kind == 'system' else {kind: _with_name(
        req, row['target_id'], name=row['target_name'], **(
            {'domain': row['project_domain']} if kind == 'project' else {}))}
    return shown | ({'OS-INHERIT:inherited_to': 'projects'} if _inherited(row) else {})


def _assigned(row: Row, req: Request) -> JsonObject:
    owner = f'groups/{row["group_id"]}' if 'group_id' in row else f'{row["actor"]}s/{row["actor_id"]}'
    target = 'system' if _kind(row) == 'system' else f'{_kind(row)}s/{row["target_id"]}'
    path = f'{target}/{owner}/roles/{row["role_id"]}'
    shown: JsonObject = {'assignment': f'{req.root_url}/v3/' + (
        f'OS-INHERIT/{path}/inherited_to_projects' if _inherited(row) else path)}
    return shown | ({'membership': f'{req.root_url}/v3/{owner}/users/{row["actor_id"]}'} if 'group_id' in row else {})


_PERSON = closed('id', id=s.STRING, name=s.STRING, domain=s.NAMED)
ASSIGNMENT = Resource('role_assignment', 'role_assignments', None, (
    Field('role', closed('id', id=s.STRING, name=s.STRING), lambda row, req: _with_name(
        req, row['role_id'], name=row['role_name']), 'Role.'),
    Field('user', _PERSON, _actor('user'), 'User who has the role.', optional=True),
    Field('group', _PERSON, _actor('group'), 'Group that has the role.', optional=True),
    Field('scope', closed(**{'system': closed(all=s.FLAG), 'domain': closed('id', id=s.STRING, name=s.STRING),
                             'project': closed('id', id=s.STRING, name=s.STRING_OR_NULL, domain=s.NAMED),
                             'OS-INHERIT:inherited_to': {'const': 'projects'}}), _scope, 'Target of the role.'),
    Field('links', closed('assignment', assignment=s.STRING, membership=s.STRING), _assigned, 'URLs.'),
))

# ---- the catalog, and limits

MAX_REGION_ID = 255
REGION_ID: Schema = {**s.ID, 'maxLength': MAX_REGION_ID}
_REGION = maybe(REGION_ID)
REGION = OpenKind('region', 'regions', t.identity_regions, (
    Field('id', s.STRING, 'id', 'ID, which clients may choose.',
          accepts=Converted(REGION_ID, _segment), **WRITE),
    _description(s.STRING),
    Field('parent_region_id', s.STRING_OR_NULL, 'parent_region_id', 'Region above it.', filter='parent_region_id',
          accepts=_REGION, **WRITE),
    linked('regions/{id}'),
), {'description': '', 'parent_region_id': None})
SERVICE = OpenKind('service', 'services', t.identity_services, (
    _ID,
    _name(255, key='type', doc='Type in the catalog.'),
    Field('name', s.STRING_OR_NULL, 'name', 'Name.', filter='name', accepts=maybe(s.name(255)), **WRITE),
    _description(),
    _enabled('the catalog shows it'),
    linked('services/{id}'),
), {'name': None, 'description': None, 'enabled': True})


def _part_of(noun: str, **more: Any) -> Field:
    return Field(f'{noun}_id', s.STRING, f'{noun}_id', f'ID of the {noun}.', filter=f'{noun}_id', accepts=s.ID,
                 **({'required': True} | WRITE | more))


ENDPOINT = OpenKind('endpoint', 'endpoints', t.identity_endpoints, (
    _ID,
    _part_of('service'),
    Field('region', s.STRING_OR_NULL, lambda row, req: row['region_id'], 'The same as region_id.', column='region_id',
          accepts=_REGION, **WRITE),
    Field('region_id', s.STRING_OR_NULL, 'region_id', 'Region.', filter='region_id', accepts=_REGION, **WRITE),
    Field('interface', {'enum': ['public', 'internal', 'admin']}, 'interface', 'Who uses it.', filter='interface',
          required=True, **WRITE),
    Field('url', s.STRING, 'url', 'URL; it may have $(project_id)s and $(user_id)s.', required=True,
          accepts={'type': 'string', 'minLength': 1, 'maxLength': 4096, 'pattern': r'^[^\x00\s]*$'}, **WRITE),
    _enabled('the catalog shows it'),
    linked('endpoints/{id}'),
), {'region_id': None, 'enabled': True})


ENDPOINT_GROUP = Kind('endpoint_group', 'endpoint_groups', t.identity_endpoint_groups, (
    _ID,
    _name(255),
    _description(),
    Field('filters', {'type': 'object'}, 'filters', 'Field values that an endpoint must have to be in the group.',
          required=True, **WRITE,
          accepts=closed(**dict.fromkeys(('interface', 'service_id', 'region_id'), s.STRING), enabled=s.FLAG)),
    linked('OS-EP-FILTER/endpoint_groups/{id}'),
), {'description': None})


def _blank(name: str, doc: str, accepts: Schema) -> Field:
    """Return a field that is null in the API and '' in the database."""
    return Field(name, s.STRING_OR_NULL, _or_null(name), doc, column=name, filter=name, accepts=accepts, **WRITE)


_LIMITED = (
    _ID,
    _part_of('service'),
    _blank('region_id', 'Region; null: all regions.', _REGION),
    _name(255, key='resource_name', doc='What is limited.'),
    _description(),
)
REGISTERED_LIMIT = Kind('registered_limit', 'registered_limits', t.identity_registered_limits, (
    *_LIMITED,
    Field('default_limit', s.INTEGER, 'default_limit', 'Limit of each project; -1: none.', accepts=s.NUMBER,
          required=True, **WRITE),
    linked('registered_limits/{id}'),
), {'region_id': '', 'description': None})
LIMIT = Kind('limit', 'limits', t.identity_limits, (
    *_LIMITED,
    _blank('project_id', 'Project to which the limit applies.', _REF),
    _blank('domain_id', 'Domain to which the limit applies.', _REF),
    Field('resource_limit', s.INTEGER, 'resource_limit', 'Limit; -1: none.', accepts=s.NUMBER, required=True, **WRITE),
    linked('limits/{id}'),
), {'region_id': '', 'project_id': '', 'domain_id': '', 'description': None},
    {name: name for name in ('service_id', 'region_id', 'resource_name', 'project_id', 'domain_id')})

# ---- credentials and delegations

CREDENTIAL = Kind('credential', 'credentials', t.identity_credentials, (
    _ID,
    Field('blob', s.STRING_OR_NULL, 'blob', 'The secret.', required=True,
          accepts={'type': 'string', 'minLength': 1, 'maxLength': 384}, **WRITE),
    Field('type', {'enum': ['totp', 'ec2']}, 'type', 'Type.', filter='type', required=True, **WRITE),
    _part_of('user'),
    Field('project_id', s.STRING_OR_NULL, 'project_id', 'Project of an EC2 key pair.', accepts=_REF, **WRITE),
    linked('credentials/{id}'),
))
EC2 = Resource('credential', 'credentials', None, (          # rows of credentials, with access and secret from the blob
    Field('user_id', s.STRING, 'user_id', 'User.'),
    Field('tenant_id', s.STRING_OR_NULL, 'project_id', 'Project.'),
    Field('trust_id', s.NULL, Constant(None), 'Always null.'),
    Field('access', s.STRING, 'access', 'Access key.'),
    Field('secret', s.STRING, 'secret', 'Secret key.'),
    linked('users/{user_id}/credentials/OS-EC2/{access}'),
))
_TEXTS: Schema = {'type': 'object', 'maxProperties': 2000, 'additionalProperties': s.STRING}
_SIGNED = obj(['access', 'signature', 'host', 'verb', 'path'], access=s.name(128), signature=s.name(256), host=s.TEXT,
              verb={'type': 'string', 'maxLength': 16}, path=s.TEXT, params=_TEXTS, headers=_TEXTS,
              body_hash={'type': 'string', 'maxLength': 64})
# ``token`` is the base64 form of the string to sign; 65536 allows a path of 1024 bytes, a query and headers
SIGNED_TEXT = obj(['access', 'token', 'signature'], access=s.name(128), token={'type': 'string', 'maxLength': 65536},
                  signature=s.name(256))
SIGNED_REQUEST: Schema = {**obj(credentials=_SIGNED, ec2Credentials=_SIGNED),
                          'anyOf': [{'required': ['credentials']}, {'required': ['ec2Credentials']}]}

ACCESS_RULE = Resource('access_rule', 'access_rules', t.identity_access_rules, (
    _ID,
    *(Field(name, s.STRING, name, doc, filter=name) for name, doc in zip(access_rules.FIELDS, (
        'Type of the service in the catalog.', 'HTTP method.',
        'Path pattern: * and {name} match any text without a slash, ** matches any text.'))),
    linked('users/{user_id}/access_rules/{id}'),
))
_ROLE_REF: Schema = {**obj(id=s.ID, name=s.name(255)), 'anyOf': [{'required': ['id']}, {'required': ['name']}]}
_RULE: Schema = {'anyOf': [
    obj(['service', 'method', 'path'], id=s.ID, service=s.name(64),
        method={'enum': ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']},
        path={'type': 'string', 'maxLength': 128, 'pattern': r'^/[^\x00]*$'}),
    {**obj(['id'], id=s.ID), 'maxProperties': 1}]}
_END = maybe({'type': 'string', 'maxLength': 64})
_SHOWN_RULE = shape(id=s.STRING, **dict.fromkeys(access_rules.FIELDS, s.STRING))
APPLICATION_CREDENTIAL = Kind('application_credential', 'application_credentials', t.identity_application_credentials, (
    _ID,                                 # directory._shown adds ``roles`` and ``access_rules`` to the rows
    _name(255, write='create'),
    Field('secret', s.STRING, 'secret', 'Secret, shown once.', 'create', write='create', accepts=maybe(s.SECRET)),
    Field('description', s.STRING_OR_NULL, 'description', 'Description.', write='create', accepts=_TEXT),
    Field('unrestricted', s.FLAG, 'unrestricted', 'Whether tokens of the credential can manage credentials and trusts.',
          write='create', accepts=maybe(s.FLAG)),
    Field('expires_at', _EXACT, exact_moment('expires_at'), 'End.', write='create', accepts=_END),
    Field('project_id', s.STRING, 'project_id', 'Project.', write='create', accepts=_REF),
    Field('roles', {'type': 'array', 'items': shape(id=s.STRING, name=s.STRING, domain_id=s.NULL)},
          'roles', 'Roles of its tokens.', write='create', accepts=maybe(s.array(_ROLE_REF, 0, 64))),
    # openstackclient sends an empty list for a credential without access rules
    Field('access_rules', {'type': 'array', 'items': _SHOWN_RULE}, _present('access_rules'),
          'Requests that tokens of the credential may make; by default, all.', optional=True, write='create',
          accepts=maybe(s.array(_RULE, 0, 64))),
    Field('user_id', s.STRING, 'user_id', 'User.'),
    Field('system', s.NULL, Constant(None), 'Always null.'),
    linked('users/{user_id}/application_credentials/{id}'),
))


def _trust_roles(row: IdentityTrustsRow, req: Request) -> list[JsonObject]:
    return [*map(ROLE.view('show').documents(req), req.service.trusts.roles(row))]


_LIST, _SHOW = 'list show', 'show'
TRUST = Kind('trust', 'trusts', t.identity_trusts, (
    Field('id', s.STRING, 'id', 'ID.', _LIST),
    *(Field(f'{who}_user_id', s.STRING, f'{who}_user_id', doc, _LIST, filter=f'{who}_user_id', write='create',
            accepts=s.ID, required=True) for who, doc in (
        ('trustor', 'User who delegates roles.'), ('trustee', 'User who gets tokens.'))),
    Field('impersonation', s.FLAG, 'impersonation', 'Whether tokens of the trust have the trustor as their user.',
          _LIST, write='create', required=True),
    Field('project_id', s.STRING, 'project_id', 'Project.', _LIST, write='create', accepts=s.ID, required=True),
    Field('roles', [ROLE.view('show')], _trust_roles, 'Roles of its tokens.', _SHOW, write='create', required=True,
          accepts=s.array(_ROLE_REF, 1, 64)),
    Field('expires_at', s.TIME_OR_NULL, lambda row, req: _time(row['expires_at']), 'End.', _LIST, write='create',
          accepts=_END),
    Field('remaining_uses', {'type': ['integer', 'null']}, 'remaining_uses',
          'Number of tokens that can still be issued; null: unlimited.', _LIST, write='create',
          accepts=maybe({**s.NUMBER, 'minimum': 1})),
    # Redelegation is not supported: a trustee cannot delegate the roles of a trust to another user.
    Field('allow_redelegation', s.FLAG, None, 'Must be false.', '', write='create', accepts={'enum': [False, None]}),
    Field('redelegation_count', {'const': 0}, Constant(0), 'Always 0.', _LIST, write='create',
          accepts={'enum': [0, None]}),
    Field('redelegated_trust_id', s.NULL, None, 'Must be null.', '', write='create'),
    Field('deleted_at', s.NULL, Constant(None), 'Always null.', _LIST),
    Field('roles_links', s.LINKS, lambda row, req: {
        'self': f'{req.root_url}/v3/OS-TRUST/trusts/{row["id"]}/roles', 'next': None, 'previous': None},
        'URL of the roles.', _SHOW),
    dataclasses.replace(linked('OS-TRUST/trusts/{id}'), views=_LIST),
))
EVENT = Resource('event', 'events', None, (
    *(Field(name, s.STRING, _present(name), doc, optional=True) for name, doc in (
        ('audit_id', 'Revoked token.'), ('user_id', 'User whose tokens are revoked.'))),
    *(Field(name, s.TIME, lambda row, req: _time(row['revoked_at']), doc) for name, doc in (
        ('issued_before', 'Tokens issued before this time are revoked.'), ('revoked_at', 'Time of the revocation.'))),
))

# ---- logins and tokens

# IDs and names in a login are used only for lookups, so they may be any text without NUL.
_LOOKED_UP: dict[str, Schema] = {'id': s.TEXT, 'name': s.TEXT}
_OWNED: dict[str, Schema] = {**_LOOKED_UP, 'domain': obj(**_LOOKED_UP)}
_LONG: Schema = {'type': 'string', 'maxLength': 4096}
AUTH = obj(
    ['identity'],
    identity=obj(
        ['methods'],
        methods=s.array({'type': 'string', 'maxLength': 64}, 1, 8),
        password=obj(['user'], user=obj(['password'], password=_LONG, **_OWNED)),
        totp=obj(['user'], user=obj(['passcode'], passcode={'type': 'string', 'maxLength': 64}, **_OWNED)),
        token=obj(['id'], id=s.STRING),
        application_credential=obj(['secret'], secret=_LONG, user=obj(**_OWNED), **_LOOKED_UP)),
    scope={'anyOf': [s.STRING, obj(**{
        'project': obj(**_OWNED), 'domain': obj(**_LOOKED_UP), 'system': obj(all=s.FLAG),
        'unscoped': {'type': 'object'}, 'OS-TRUST:trust': obj(['id'], id=s.TEXT)})]})
_PUBLIC_ENDPOINT = shape(id=s.STRING, interface=s.STRING, region=s.STRING_OR_NULL, region_id=s.STRING_OR_NULL,
                         url=s.STRING)
CATALOG: Schema = {'type': 'array', 'items': shape(
    id=s.STRING, type=s.STRING, name=s.STRING, endpoints={'type': 'array', 'items': _PUBLIC_ENDPOINT})}
_USER_OF_TOKEN = shape(id=s.STRING, name=s.STRING, domain=s.NAMED, password_expires_at=_EXACT)


def _if(shown: bool, value: Any) -> Any:
    return value if shown else ABSENT


def _ref(domain_id: str | None, name: str | None) -> JsonObject:
    return {'id': domain_id, 'name': name}


TOKEN = View(                            # getters take (TokenData, catalog or None)
    Field('methods', s.STRINGS, lambda data, catalog: list(data.claims.methods), 'Methods of the login.'),
    Field('audit_ids', s.STRINGS, lambda data, catalog: list(data.claims.audit_ids), 'Audit IDs of the token.'),
    Field('issued_at', s.TIME, lambda data, catalog: _time(data.claims.issued_at), 'Time of the login.'),
    Field('expires_at', s.TIME, lambda data, catalog: _time(data.claims.expires_at), 'End.'),
    Field('user', _USER_OF_TOKEN, lambda data, catalog: {
        'id': data.user_id, 'name': data.user_name, 'domain': _ref(data.user_domain_id, data.user_domain_name),
        'password_expires_at': utils.exact_time(data.password_expires_at)}, 'User.'),
    Field('project', shape(id=s.STRING, name=s.STRING, domain=s.NAMED),
          lambda data, catalog: _if(data.project_id, {
              'id': data.project_id, 'name': data.project_name,
              'domain': _ref(data.project_domain_id, data.project_domain_name)}), 'Scope.', optional=True),
    Field('is_domain', {'const': False}, lambda data, catalog: _if(data.project_id, False), 'Always false.',
          optional=True),
    Field('domain', s.NAMED, lambda data, catalog: _if(data.domain_id, _ref(data.domain_id, data.domain_name)),
          'Scope.', optional=True),
    Field('system', shape(all=s.FLAG), lambda data, catalog: _if(
        data.system_scope, {data.system_scope: True}), 'Scope.', optional=True),
    Field('roles', {'type': 'array', 'items': s.NAMED}, lambda data, catalog: _if(
        data.role_rows, list(data.role_rows)), 'Roles.', optional=True),
    Field('catalog', CATALOG, lambda data, catalog: _if(data.role_rows and catalog is not None, catalog),
          'Services and their endpoints.', optional=True),
    Field('application_credential', closed(
        'id', 'name', 'restricted', id=s.STRING, name=s.STRING, restricted=s.FLAG,
        access_rules={'type': 'array', 'items': _SHOWN_RULE}), lambda data, catalog: _if(
            data.credential, data.credential), 'Application credential of the login.', optional=True),
    Field('OS-TRUST:trust', shape(
        id=s.STRING, impersonation=s.FLAG, trustor_user=s.REFERENCE, trustee_user=s.REFERENCE),
        lambda data, catalog: _if(data.trust, data.trust), 'Trust of the login.', optional=True),
)
_USER = shape(id=s.STRING, name=s.STRING, domain=s.NAMED)
RECEIPT = shape(receipt=shape(methods=s.STRINGS, issued_at=s.TIME, expires_at=s.TIME, user=_USER),
                required_auth_methods={'type': 'array', 'items': s.STRINGS})


def token(data: TokenData, catalog: Catalog | None = None) -> JsonObject:
    """Build the response to a login or a validation."""
    return {'token': TOKEN.compiled(1)(data, catalog)}


def receipt(missing: exception.FactorsMissing) -> JsonObject:
    """Build the response to a login that needs more methods."""
    user = missing.user
    return {'receipt': {'methods': list(missing.methods), 'issued_at': _time(missing.issued_at),
                        'expires_at': _time(missing.expires_at),
                        'user': {'id': user['id'], 'name': user['name'],
                                 'domain': _ref(user['domain_id'], user['domain_name'])}},
            'required_auth_methods': [[*rule] for rule in missing.rules]}


# ---- versions

_MEDIA_TYPES: dict[str, Schema] = {
    'media-types': {'type': 'array', 'items': shape(base=s.STRING, type=s.STRING)}}
VERSION = shape(id=s.STRING, status=s.STRING, updated=s.STRING,
                links={'type': 'array', 'items': shape(rel=s.STRING, href=s.STRING)}, **_MEDIA_TYPES)


def version(base: str) -> JsonObject:
    return {'id': 'v3.14', 'status': 'stable', 'updated': '2020-04-07T00:00:00Z',
            'links': [{'rel': 'self', 'href': f'{base}/v3/'}],
            'media-types': [{'base': 'application/json', 'type': 'application/vnd.openstack.identity-v3+json'}]}
