"""The account of [ec2], with which nova-api-ec2 and nova-objectstore ask Keystone who has signed."""
from __future__ import annotations

from typing import Any

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.runtime import rest_client

TIMEOUT_S = 60                # without an answer, unless [ec2] says otherwise


def session_of(conf: ConfigOpts) -> tuple[Any, Any, float]:
    """(keystoneauth1's session, its login, seconds that it waits).

    :raises InvalidInput: [ec2] names no account
    """
    if not conf.ec2.auth_type:
        raise exception.InvalidInput('[ec2] names no account: auth_type, auth_url, username, password and project of a '
                                     'service that may check signatures.')
    session, auth = rest_client.session_of(conf, 'ec2', TIMEOUT_S)
    return session, auth, conf.ec2.timeout or TIMEOUT_S
