"""The object store of a cloud: its files, who may reach them, and who signs."""
from __future__ import annotations

import base64
from collections.abc import Callable
import os
import pathlib
from typing import TYPE_CHECKING
from typing import Any

from oslo_config.cfg import ConfigOpts

from nova import context
from nova import exception
from nova import policy
from nova.objectstore import app
from nova.objectstore import errors
from nova.objectstore import signing
from nova.objectstore import store
from nova.runtime import disk_space
from nova.runtime import host_identity

if TYPE_CHECKING:
    from nova.identity.embedded.service import IdentityService

PATH = '/objectstore'


WRONG = ('SignatureDoesNotMatch', 'The signature or the access key is not valid.', 403)
AWAY = ('ServiceUnavailable', 'The Identity service does not check signatures now.', 503)
UserOf = Callable[[signing.Signed, str], app.User]


def local_signers(identity: IdentityService) -> UserOf:
    """Who has signed, as the all-in-one's own identity service says."""
    def user_of(signed: signing.Signed, address: str) -> app.User:
        try:
            _token, data = identity.authenticate_text(signed.access, signed.text, signed.signature, address)
        except exception.Unauthorized:
            raise errors.S3Error(*WRONG) from None
        except (exception.TooManyRequests, exception.Unavailable):
            raise errors.S3Error('SlowDown', 'Please reduce your request rate.', 503) from None
        return app.User(data.user_id, str(data.project_id), tuple(data.roles))
    return user_of


def remote_signers(conf: ConfigOpts) -> UserOf:
    """Who has signed, as Keystone says, which is asked with the account of [ec2].

    :raises InvalidInput: [ec2] names no account
    """
    from keystoneauth1 import exceptions
    from keystoneauth1 import loading
    if not conf.ec2.auth_type:
        raise exception.InvalidInput('[ec2] names no account: auth_type, auth_url, username, password and project of a '
                                     'service that may check signatures.')
    auth: Any = loading.load_auth_from_conf_options(conf, 'ec2')
    session = loading.load_session_from_conf_options(conf, 'ec2', auth=auth)
    url = str(auth.auth_url).rstrip('/').removesuffix('/v3') + '/v3/s3tokens'

    def user_of(signed: signing.Signed, address: str) -> app.User:
        text = base64.urlsafe_b64encode(signed.text.encode()).decode()
        try:
            answer = session.post(url, raise_exc=False, timeout=conf.ec2.timeout or 60, redirect=False, json={
                'credentials': {'access': signed.access, 'token': text, 'signature': signed.signature}})
        except exceptions.ClientException:
            raise errors.S3Error(*AWAY) from None
        if answer.status_code in (400, 401, 403, 404):
            raise errors.S3Error(*WRONG)
        if answer.status_code != 200:
            raise errors.S3Error(*AWAY)
        token = answer.json()['token']
        return app.User(token['user']['id'], token['project']['id'], tuple(role['name'] for role in token['roles']))
    return user_of


def application(conf: ConfigOpts, rules: policy.Policy, user_of: UserOf) -> app.Application:
    """What serves S3's protocol.

    :param rules: policy.Policy
    :param user_of: function(signing.Signed, address) -> who has signed
    """
    options = conf.objectstore
    path = pathlib.Path(options.path or os.path.join(host_identity.state_path(conf), 'objects'))
    limits = store.Limits(options.gigabytes << 30, options.objects, options.buckets)
    reserve = disk_space.Reserve(conf.image.free_disk_reserve * disk_space.MIB)

    def allows(user: app.User, rule: str) -> bool:
        caller = context.RequestContext(user_id=user.user_id, project_id=user.project_id, roles=list(user.roles),
                                        is_admin=None, overwrite=False)
        caller.is_admin = rules.is_admin(caller)
        return bool(rules.allows(caller, rule, {'project_id': user.project_id, 'user_id': user.user_id}))
    return app.Application(store.Store(path, limits, reserve), user_of, allows, conf.ec2.region)
