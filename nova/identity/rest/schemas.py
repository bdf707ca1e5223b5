"""Schemas of request bodies. Unknown keys are ignored, as in Keystone; wrong types are refused."""
import re
from collections.abc import Mapping, Sequence
from typing import Any

from nova import exception
from nova.json_types import JsonObject
from nova.web import json_schema

# No NUL, because PostgreSQL cannot store it.
TEXT = {'type': 'string', 'maxLength': 65535, 'pattern': r'\A[^\x00]*\Z'}
ID = {'type': 'string', 'minLength': 1, 'maxLength': 64, 'pattern': r'\A[^\x00]*\Z'}
SECRET = {'type': 'string', 'minLength': 1, 'maxLength': 4096}
FLAG = {'type': 'boolean'}


def obj(required: Sequence[str] = (), **properties: Mapping[str, object]) -> dict[str, Any]:
    return {'type': 'object', 'required': list(required), 'properties': properties}


def name(length: int) -> JsonObject:
    """Return the schema of a name: not only spaces."""
    return {'type': 'string', 'minLength': 1, 'maxLength': length,
            'pattern': r'\A[^\x00]*[^\s\x00][^\x00]*\Z'}


def maybe(schema: dict[str, Any]) -> JsonObject:
    return {'anyOf': [schema, {'type': 'null'}]}


def wrapped(key: str, schema: dict[str, Any]) -> JsonObject:
    return obj([key], **{key: schema})


# References in a login are only looked up: any text without NUL.
_REF: dict[str, Any] = {'id': TEXT, 'name': TEXT}
_DOMAIN = obj(**_REF)
_USER: dict[str, Any] = {**_REF, 'domain': _DOMAIN}

AUTH = wrapped('auth', obj(
    ['identity'],
    identity=obj(
        ['methods'],
        methods={'type': 'array', 'items': {'type': 'string', 'maxLength': 64}, 'minItems': 1, 'maxItems': 8},
        password=wrapped('user', obj(['password'], password={'type': 'string', 'maxLength': 4096}, **_USER)),
        totp=wrapped('user', obj(['passcode'], passcode={'type': 'string', 'maxLength': 64}, **_USER)),
        token=obj(['id'], id={'type': 'string'}),
        application_credential=obj(['secret'], secret={'type': 'string', 'maxLength': 4096},
                                   user=obj(**_USER), **_REF)),
    scope={'anyOf': [{'type': 'string'},
                     obj(project=obj(**_USER), domain=_DOMAIN, system=obj(all=FLAG), unscoped={'type': 'object'})]}))

# Options of projects and roles are not supported, so they are refused.
_NO_OPTIONS: dict[str, Any] = {'type': 'object', 'maxProperties': 0}
_PROJECT: dict[str, Any] = {'options': _NO_OPTIONS,
                            'name': name(64), 'description': maybe(TEXT), 'enabled': FLAG, 'domain_id': maybe(ID),
                            'parent_id': maybe(ID), 'is_domain': FLAG,
                            'tags': {'type': 'array', 'maxItems': 80, 'uniqueItems': True,
                                     'items': {'type': 'string', 'minLength': 1, 'maxLength': 255,
                                               'pattern': r'\A[^,/\x00]*\Z'}}}
PROJECT_CREATE = wrapped('project', obj(['name'], **_PROJECT))
PROJECT_UPDATE = wrapped('project', obj(**_PROJECT))

# Refuse unsupported options and unsatisfiable rules; null removes an option.
METHODS = ('password', 'totp', 'token', 'application_credential')
_RULE: dict[str, Any] = {'type': 'array', 'items': {'enum': list(METHODS)}, 'minItems': 1, 'uniqueItems': True}
_OPTIONS = obj(multi_factor_auth_enabled=maybe(FLAG), ignore_password_expiry=maybe(FLAG),
               multi_factor_auth_rules=maybe({'type': 'array', 'items': _RULE, 'maxItems': 16, 'uniqueItems': True}))
_OPTIONS['additionalProperties'] = False

_PERSON: dict[str, Any] = {'name': name(255), 'description': maybe(TEXT), 'enabled': FLAG, 'domain_id': maybe(ID),
                           'password': maybe(SECRET), 'default_project_id': maybe(ID),
                           'email': maybe({**TEXT, 'maxLength': 255}), 'options': _OPTIONS}
USER_CREATE = wrapped('user', obj(['name'], **_PERSON))
USER_UPDATE = wrapped('user', obj(**_PERSON))
PASSWORD = wrapped('user', obj(['password', 'original_password'], password=SECRET,
                               original_password={'type': 'string', 'maxLength': 4096}))

_ROLE: dict[str, Any] = {'options': _NO_OPTIONS,
                         'name': name(255), 'description': maybe(TEXT), 'domain_id': {'type': 'null'}}
ROLE_CREATE = wrapped('role', obj(['name'], **_ROLE))
ROLE_UPDATE = wrapped('role', obj(**_ROLE))

# Access rules are not supported, so they are refused.
CREDENTIAL = wrapped('application_credential', obj(
    ['name'], name=name(255), secret=maybe(SECRET), description=maybe(TEXT), unrestricted=maybe(FLAG),
    expires_at=maybe({'type': 'string', 'maxLength': 64}), project_id=maybe(ID),
    roles=maybe({'type': 'array', 'maxItems': 64,
                 'items': {**obj(id=ID, name=name(255)), 'minProperties': 1}}),
    access_rules=maybe({'type': 'array', 'maxItems': 0})))

_BLOB = {'type': 'string', 'minLength': 1, 'maxLength': 384}
_USER_CREDENTIAL: dict[str, Any] = {
    'blob': _BLOB, 'type': {'enum': ['totp', 'ec2']}, 'user_id': ID, 'project_id': maybe(ID)}
USER_CREDENTIAL_CREATE = wrapped('credential', obj(['blob', 'type', 'user_id'], **_USER_CREDENTIAL))
USER_CREDENTIAL_UPDATE = wrapped('credential', obj(**_USER_CREDENTIAL))

EC2_CREATE = obj(['tenant_id'], tenant_id=ID)
_TEXTS = {'type': 'object', 'maxProperties': 2000, 'additionalProperties': {'type': 'string'}}
_SIGNED = obj(['access', 'signature', 'host', 'verb', 'path'], access=name(128), signature=name(256), host=TEXT,
              verb={'type': 'string', 'maxLength': 16}, path=TEXT, params=_TEXTS, headers=_TEXTS,
              body_hash={'type': 'string', 'maxLength': 64})
# base64 of the string to sign, which contains a path of up to 1024 bytes, a query and headers
_SIGNED_TEXT = obj(['access', 'token', 'signature'], access=name(128), token={'type': 'string', 'maxLength': 65536},
                   signature=name(256))
S3_TOKENS = obj(['credentials'], credentials=_SIGNED_TEXT)
EC2_TOKENS = {**obj(credentials=_SIGNED, ec2Credentials=_SIGNED),
              'anyOf': [{'required': ['credentials']}, {'required': ['ec2Credentials']}]}


class Body:
    """A compiled schema."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema, self._validator = schema, json_schema.Validator(schema)

    def validate(self, body: dict[str, Any], _version: int = 0, _relaxed: bool = False) -> JsonObject:
        """Validate a body and return it.

        :raises BadRequest: names the invalid field without its value, which may be a password
        """
        error = next(self._validator.iter_errors(body), None)
        if error is not None:
            where = '.'.join(str(step) for step in error.absolute_path) or 'body'
            missing = re.match(r"'([^']{1,64})' is a required property", error.message)
            reason = f'{missing[1]} is missing' if missing else f'invalid ({error.validator})'
            raise exception.BadRequest(f'Invalid input for {where[:255]}: {reason}.')
        return body
