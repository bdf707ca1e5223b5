"""Limits and usage of network resources in the compute API: until microversion 2.35, in quota classes until 2.49.

The embedded network service stores and enforces these quotas. The compute API neither shows nor changes quotas of an
external Networking service.
"""
from collections.abc import Mapping

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.db.engine import Connection
from nova.db.networks import limits as db_limits
from nova.network import quotas

# {key of the compute API: name in [network] quota}. fixed_ips is the limit of ports
NAMES = {'fixed_ips': 'port', 'floating_ips': 'floatingip', 'security_groups': 'security_group',
         'security_group_rules': 'security_group_rule'}


def limits(conf: ConfigOpts, own: dict[str, int] | None = None) -> dict[str, int]:
    """Return {key: limit}; -1: unlimited, or managed by an external Networking service.

    :param own: {name in [network] quota: limit} that was set for a project
    """
    if conf.network.backend != 'embedded':
        return dict.fromkeys(NAMES, -1)
    return {key: quotas.limit(conf, name, own) for key, name in NAMES.items()}


def of_project(conn: Connection, conf: ConfigOpts, project_id: str) -> dict[str, int]:
    """Return {key: limit} of a project."""
    return limits(conf, db_limits.of(conn, project_id))


def usage(conn: Connection, project_id: str) -> dict[str, int]:
    """Return {key: number in use} of a project."""
    return {key: quotas.used(conn, name, project_id) for key, name in NAMES.items()}


def changed(conf: ConfigOpts, wanted: Mapping[str, int], present: Mapping[str, int], project: bool) -> dict[str, int]:
    """Return {name in [network] quota: limit} of the changed limits.

    :param wanted: {key: limit} of a request
    :param present: {key: limit} before the request
    :param project: whether the request is for a whole project; the network service has no per-user limits
    :raises BadRequest: these limits cannot be changed here
    """
    found = {key: limit for key, limit in wanted.items() if limit != present[key]}
    if found and conf.network.backend != 'embedded':
        raise exception.BadRequest(f'{", ".join(sorted(found))}: the Networking service of this cloud manages network '
                                   'quotas. Set them there, for example with openstack quota set --ports.')
    if found and not project:
        raise exception.BadRequest(f'{", ".join(sorted(found))}: network limits apply to whole projects. Set them '
                                   'for the project; the defaults of all projects are in [network] quota.')
    return {NAMES[key]: limit for key, limit in found.items()}
