"""Limits and usage of networks in the words of the compute API, which has them until 2.35 (classes until 2.49).

The embedded network service enforces them: they are those of its own quotas. A Networking service has quotas of its
own, which the compute API neither shows nor changes.
"""
from __future__ import annotations

from collections.abc import Mapping

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.db.engine import Connection
from nova.db.networks import limits as db_limits
from nova.network import quotas

# key of the compute API -> name in [network] quota. A port has a fixed address of each version of IP.
NAMES = {'fixed_ips': 'port', 'floating_ips': 'floatingip', 'security_groups': 'security_group',
         'security_group_rules': 'security_group_rule'}


def limits(conf: ConfigOpts, own: dict[str, int] | None = None) -> dict[str, int]:
    """{key: limit}; -1: no limit, or one that a Networking service has.

    :param own: {name in [network] quota: limit} that was set for a project
    """
    if conf.network.backend != 'embedded':
        return dict.fromkeys(NAMES, -1)
    return {key: quotas.limit(conf, name, own) for key, name in NAMES.items()}


def of_project(conn: Connection, conf: ConfigOpts, project_id: str) -> dict[str, int]:
    """{key: limit} of a project."""
    return limits(conf, db_limits.of(conn, project_id))


def usage(conn: Connection, project_id: str) -> dict[str, int]:
    """{key: number in use} of a project."""
    return {key: quotas.used(conn, name, project_id) for key, name in NAMES.items()}


def changed(conf: ConfigOpts, wanted: Mapping[str, int], present: Mapping[str, int], project: bool) -> dict[str, int]:
    """{name in [network] quota: limit} of the limits that are not what they were.

    :param wanted: {key: limit} of a request
    :param present: {key: limit} before it
    :param project: whether the request is about a whole project; the network service has no other limits
    :raises BadRequest: they cannot be changed here
    """
    found = {key: limit for key, limit in wanted.items() if limit != present[key]}
    if found and conf.network.backend != 'embedded':
        raise exception.BadRequest(f'{", ".join(sorted(found))}: the Networking service of this cloud has the quotas '
                                   'of networks. Set them there, for example with openstack quota set --ports.')
    if found and not project:
        raise exception.BadRequest(f'{", ".join(sorted(found))}: limits of networks are of whole projects. Set them '
                                   'for the project; the defaults of all projects are in [network] quota.')
    return {NAMES[key]: limit for key, limit in found.items()}
