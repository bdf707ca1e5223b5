"""Implementation of nova.cloud.optional_parts.ObjectStore: the application, its authentication and its server."""
from __future__ import annotations

import base64
import hashlib
import json
import os
import pathlib
from typing import TYPE_CHECKING

from oslo_config.cfg import ConfigOpts

from nova import context
from nova import exception
from nova import policy
from nova.api import proxy_headers
from nova.identity import signatures
from nova.objectstore import app
from nova.objectstore import audit
from nova.objectstore import errors
from nova.objectstore import signing
from nova.objectstore import store
from nova.runtime import disk_space
from nova.runtime import host_identity
from nova.runtime import tls
from nova.runtime import wsgi
from nova.runtime.http import priorities

if TYPE_CHECKING:
    import requests

    from nova.db.engine import Database
    from nova.identity.embedded.service import IdentityService
    from nova.json_types import JsonObject

PATH = '/objectstore'

WRONG = ('SignatureDoesNotMatch', 'The signature or the access key is not valid.', 403)
AWAY = ('ServiceUnavailable', 'The Identity service is unavailable and cannot check the signature.', 503)
HIDDEN = ('NotImplemented', 'Chunks that are signed one by one cannot be checked: the account of [ec2] may not read '
          'credentials in the Identity service. Sign the whole content, or leave it unsigned.', 501)
TOKEN = ('AccessDenied', 'The token is not valid, is for no project, or is of an application credential with '
         'access rules, which the object store does not accept.', 403)


class LocalCallers:
    """Authenticates callers with the embedded identity service of the all-in-one."""

    def __init__(self, identity: IdentityService) -> None:
        self._identity = identity

    def signer(self, signed: signing.Signed, address: str) -> app.User:
        try:
            _token, data = self._identity.signed.authenticate_text(
                signed.access, signed.text, signed.signature, address, shared=True)
        except exception.Unauthorized:
            raise errors.S3Error(*WRONG) from None
        except (exception.TooManyRequests, exception.Unavailable):
            raise errors.S3Error('SlowDown', 'Please reduce your request rate.', 503) from None
        return app.User(data.user_id, str(data.project_id), tuple(data.roles))

    def key(self, access: str, scope: str) -> bytes:
        return _known(self._identity.signed.key_of_scope(access, scope))

    def owner(self, token: str) -> app.User:
        try:
            data = self._identity.validate(token)
        except exception.Unauthorized:
            raise errors.S3Error(*TOKEN) from None
        except exception.Unavailable:
            raise errors.S3Error(*AWAY) from None
        if not data.project_id or data.credential and 'access_rules' in data.credential:
            raise errors.S3Error(*TOKEN)         # the store does not evaluate access rules
        return app.User(data.user_id, data.project_id, tuple(data.roles))


class RemoteCallers:
    """Authenticates callers with Keystone, through the service account in [ec2].

    :raises InvalidInput: [ec2] names no account
    """

    def __init__(self, conf: ConfigOpts) -> None:
        from nova.cloud import ec2_account                   # local import: only this class needs keystoneauth
        self._session, self._url, self._timeout = ec2_account.session_of(conf)

    def signer(self, signed: signing.Signed, address: str) -> app.User:
        text = base64.urlsafe_b64encode(signed.text.encode()).decode()
        return self._asked('/s3tokens', 'POST', WRONG, {
            'credentials': {'access': signed.access, 'token': text, 'signature': signed.signature}})

    def owner(self, token: str) -> app.User:
        if not token.isascii() or not token.isprintable():
            raise errors.S3Error(*TOKEN)
        return self._asked('/auth/tokens?nocatalog', 'GET', TOKEN, headers={'X-Subject-Token': token})

    def _request(self, path: str, method: str, body: JsonObject | None = None,
                 headers: dict[str, str] | None = None) -> requests.Response:
        from keystoneauth1 import exceptions
        try:
            return self._session.request(self._url + path, method, raise_exc=False, timeout=self._timeout,
                                         redirect=False, json=body, headers=headers or {})
        except exceptions.ClientException:
            raise errors.S3Error(*AWAY) from None

    def _asked(self, path: str, method: str, wrong: tuple[str, str, int], body: JsonObject | None = None,
               headers: dict[str, str] | None = None) -> app.User:
        answer = self._request(path, method, body, headers)
        if answer.status_code in (400, 401, 403, 404):
            raise errors.S3Error(*wrong)
        if answer.status_code != 200:
            raise errors.S3Error(*AWAY)
        token = answer.json()['token']
        if 'project' not in token:
            raise errors.S3Error(*wrong)
        return app.User(token['user']['id'], token['project']['id'], tuple(role['name'] for role in token['roles']))

    def key(self, access: str, scope: str) -> bytes:
        answer = self._request('/credentials/' + hashlib.sha256(access.encode()).hexdigest(), 'GET')
        if answer.status_code in (401, 403):
            raise errors.S3Error(*HIDDEN)
        if answer.status_code not in (200, 404):
            raise errors.S3Error(*AWAY)
        blob = json.loads(answer.json()['credential']['blob']) if answer.status_code == 200 else {}
        return _known(signatures.key_of_scope(blob['secret'], scope) if blob.get('access') == access else None)


def _known(key: bytes | None) -> bytes:
    if key is None:
        raise errors.S3Error(*WRONG)
    return key


def application(conf: ConfigOpts, rules: policy.Policy, callers: app.Callers, finish: audit.Finish) -> app.Application:
    """Return the application that serves S3's protocol.

    :param finish: stores the audit records of writes
    """
    options = conf.objectstore
    path = pathlib.Path(options.path or os.path.join(host_identity.state_path(conf), 'objects'))
    limits = store.Limits(options.gigabytes << 30, options.objects, options.buckets)
    reserve = disk_space.reserve_of(conf)

    def allows(user: app.User, rule: str) -> bool:
        caller = context.RequestContext(user_id=user.user_id, project_id=user.project_id, roles=list(user.roles),
                                        is_admin=None, overwrite=False)
        caller.is_admin = rules.is_admin(caller)
        return bool(rules.allows(caller, rule, {'project_id': user.project_id, 'user_id': user.user_id}))
    return app.Application(store.Store(path, limits, reserve), callers, allows, conf.ec2.region,
                           finish)


def local(conf: ConfigOpts, rules: policy.Policy, identity_service: IdentityService,
          finish: audit.Finish) -> app.Application:
    """Return the application of an all-in-one.

    :param identity_service: the embedded identity service
    """
    return application(conf, rules, LocalCallers(identity_service), finish)


def finish_of(conf: ConfigOpts) -> tuple[audit.Finish, Database | None]:
    """Return (function that stores the audit records of writes, database that the function uses or None).

    Records go to the audit log if [api_database] names its database. The store does not require this database; without
    it, records go to the service's log.

    :raises DatabaseNotReady: the database does not have the schema of this code
    """
    if not conf.api_database.connection:
        return audit.logged, None
    from nova import notify
    from nova.db import schema
    from nova.db.audit import log
    from nova.db.cells import cells
    api_db = cells.open_database(conf, 'api_database', '')
    schema.check(api_db, 'api')
    return log.Auditor(api_db, notify.new(conf)).finish, api_db


def server(conf: ConfigOpts, application: app.Application, threads: int, certificate: tls.Tls | None) -> wsgi.Server:
    """Return the HTTP server of the object store at [objectstore] listen and port; the store is at the path /.

    :param threads: maximum number of concurrent requests without uploads and reads of objects. Reads have as many
        threads, because slow clients hold them, and uploads have half as many
    """
    mounts = proxy_headers.of_proxies(conf, wsgi.Mounts([wsgi.Mount('', application, max_body=None)]))
    plan = priorities.Plan(threads, max(2, threads // 2), classes=[
        priorities.RequestClass(b'GET /[^/]+/.', 'downloads'),
        priorities.RequestClass(b'(PUT|POST) /', '', uploads=True),
    ], apart=[priorities.Priority('downloads', threads, threads, each=max(1, threads // 2))])
    return wsgi.Server(mounts, conf.objectstore.listen, conf.objectstore.port, plan=plan, drain=conf.http.drain_time,
                       trusted=conf.http.trusted_proxies, tls=certificate and certificate.context)
