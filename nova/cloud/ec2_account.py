"""Keystone session of the [ec2] account, with which nova-api-ec2 and nova-objectstore check signatures."""
from __future__ import annotations

from typing import Any

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.runtime import rest_client

TIMEOUT_S = 60                # without an answer, unless [ec2] says otherwise


def session_of(conf: ConfigOpts) -> tuple[Any, Any, float]:
    """Return (keystoneauth1's session, its login, timeout in seconds).

    :raises InvalidInput: [ec2] names no account
    """
    if not conf.ec2.auth_type:
        raise exception.InvalidInput('[ec2] names no account: auth_type, auth_url, username, password and project of a '
                                     'service that may check signatures.')
    session, auth = rest_client.session_of(conf, 'ec2', TIMEOUT_S)
    return session, auth, conf.ec2.timeout or TIMEOUT_S
