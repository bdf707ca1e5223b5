"""Keystone session of the [ec2] account, with which nova-api-ec2 and nova-objectstore check signatures."""
from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.runtime import rest_client

if TYPE_CHECKING:
    from keystoneauth1 import session as sessions

TIMEOUT_S = 60                # seconds to wait for an answer, unless [ec2] sets a timeout


def session_of(conf: ConfigOpts) -> tuple[sessions.Session, str, float]:
    """Return (keystoneauth1's session, URL of the Identity API, timeout in seconds).

    :raises InvalidInput: [ec2] names no account, or one without an Identity service
    """
    if not conf.ec2.auth_type:
        raise exception.InvalidInput('[ec2] has no account: set auth_type, auth_url, username, password and project of '
                                     'a service that may check signatures.')
    session, auth = rest_client.session_of(conf, 'ec2', TIMEOUT_S)
    url = getattr(auth, 'auth_url', None)
    if not url:
        raise exception.InvalidInput(f'auth_type {conf.ec2.auth_type} of [ec2] has no auth_url: use the account of an '
                                     'Identity service, for example with auth_type = password.')
    return session, f"{str(url).rstrip('/').removesuffix('/v3')}/v3", conf.ec2.timeout or TIMEOUT_S
