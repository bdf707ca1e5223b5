"""Policy rules of the Networking API for a caller and a resource."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
import functools
import itertools
from typing import Any, TYPE_CHECKING

from nova import exception
from nova import policies
from nova import policy
from nova.db.networks import networks as db
from nova.db.tables import network as t

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.db.engine import Connection
    from nova.db.tables.rows import NetworksRow

Target = dict[str, str | None]
# attributes that default rules compare, except attributes of the network of a port or subnet
COMPARED = ('project_id', 'shared', 'router:external', 'device_owner', 'target_tenant')
_NETWORK_OWNER = 'network:project_id'
_COLUMNS = {'provider:network_type': 'network_type', 'provider:physical_network': 'physical_network',
            'binding:host_id': 'host', 'object_id': 'network_id'}      # {attribute: its column, if the names differ}


@functools.cache
def _defaults() -> policy.Policy:
    return policy.Policy(None, policies.NETWORK)


def target(values: Mapping[str, Any], **more: str | None) -> Target:
    """Return {name by which rules refer to an attribute: value} of a resource.

    :param values: view, row or new values of the resource
    :param more: attributes to add or replace
    """
    project, named = values.get('project_id'), {
        'shared': values.get('shared'), 'router:external': values.get('router:external', values.get('external'))}
    to = values.get('target_tenant', values.get('target_project'))
    return {**dict.fromkeys(('project_id', 'tenant_id', 'ext_parent:project_id', 'security_group:project_id'), project),
            **{name: None if value is None else str(value) for name, value in named.items()},
            'device_owner': values.get('device_owner'), 'target_tenant': to, 'target_project': to, **more}


_NAMED = frozenset(target({})) | {_NETWORK_OWNER}


def further(context: RequestContext, rule: str) -> list[str]:
    """Return the names of the attributes that a rule compares and ``target`` does not return."""
    return sorted((context.rules or _defaults()).compares(rule) - _NAMED)


def target_of(context: RequestContext, rule: str, values: Mapping[str, Any]) -> Target:
    """Return the target of a resource with all attributes that a rule compares."""
    found = {name: values.get(name, values.get(_COLUMNS.get(name, name))) for name in further(context, rule)}
    return target(values) | {name: None if value is None else str(value) for name, value in found.items()}


def allows(context: RequestContext, rule: str, where: Target) -> bool:
    """Return whether a rule allows the caller to use a resource.

    The default rules apply to calls from inside this deployment, because their contexts contain no policy.

    :param where: see ``target``
    """
    rules = context.rules
    if rules is None:
        return bool(context.is_admin) or _defaults().allows(context, rule, where)
    return bool(rules.allows(context, rule, where))


def own(context: RequestContext) -> Target:
    """Return the target for the resources of the caller's project."""
    return target({'project_id': context.project_id})


def authorize(context: RequestContext, rule: str, where: Target) -> None:
    """:raises PolicyDenied: the rule does not allow the caller to use the resource"""
    if not allows(context, rule, where):
        raise exception.PolicyDenied(rule=rule)


def authorize_project(context: RequestContext, rule: str, project: str) -> None:
    """Check a rule for a resource of a project.

    :raises NotFound: the rule denies access to another project
    :raises PolicyDenied: the rule denies access to the caller's project
    """
    if not allows(context, rule, target({'project_id': project})):
        raise exception.PolicyDenied(rule=rule) if project == context.project_id else exception.NotFound()


def in_network(conn: Connection, context: RequestContext, rule: str, where: Target, network_id: str) -> Target:
    """Add the attributes of a resource's network to a target, if the result of the rule depends on these attributes."""
    return where | _of_networks(conn, context, [network_id]).get(network_id, {}) if _is_open(
        context, rule, where) else where


def _is_open(context: RequestContext, rule: str, where: Target) -> bool:
    """Return whether the result of a rule depends on the network of a port or subnet."""
    values = {_NETWORK_OWNER: context.project_id, 'shared': 'True', 'router:external': 'True'}
    names, found = values.keys() & (context.rules or _defaults()).compares(rule), allows(context, rule, where)
    return any(found != allows(context, rule, where | {name: values[name] for name in some})
               for number in range(1, len(names) + 1) for some in itertools.combinations(sorted(names), number))


def _of_networks(conn: Connection, context: RequestContext, idents: Iterable[str]) -> dict[str, Target]:
    """Return {network id: attributes_of_network()}."""
    rows = db.many(conn, t.networks, list(dict.fromkeys(idents)))
    shared = db.shared_among(conn, [row['id'] for row in rows], context.project_id)
    return {row['id']: attributes_of_network(row, row['shared'] or row['id'] in shared) for row in rows}


def attributes_of_network(network: NetworksRow, is_shared: bool) -> Target:
    """Return the attributes of a network that rules of its ports and subnets compare.

    :param is_shared: whether the network is shared with the caller's project
    """
    return {_NETWORK_OWNER: network['project_id'], 'shared': str(is_shared),
            'router:external': str(network['external'])}


def readable(conn: Connection, context: RequestContext, rule: str, views: Sequence[Mapping[str, Any]],
             of_network: bool) -> list[bool]:
    """Return a list that tells, for each view, whether a rule allows the caller to read the view.

    :param of_network: whether the views are ports or subnets; the rule may compare the owner of their network
    """
    more = further(context, rule)
    names = [name for name in COMPARED if views and name in views[0]]           # all views have the same fields
    owners: list[tuple[Any, ...]] = [tuple([view[name] for name in names]) for view in views]
    if more:
        owners = [(*owner, *(_key(view.get(name)) for name in more)) for owner, view in zip(owners, views)]
        names += more
    targets = {owner: target_of(context, rule, dict(zip(names, owner))) for owner in dict.fromkeys(owners)}
    is_open = {owner for owner, where in targets.items() if of_network and _is_open(context, rule, where)}
    found: dict[Any, bool] = {owner: allows(context, rule, where) for owner, where in targets.items()}
    if not is_open:
        return [found[owner] for owner in owners]
    networks = _of_networks(conn, context, {view['network_id'] for view, owner in zip(views, owners)
                                            if owner in is_open})
    keys = [(owner, view['network_id']) if owner in is_open else owner for view, owner in zip(views, owners)]
    for key in dict.fromkeys(keys):
        if key not in found:
            found[key] = allows(context, rule, targets[key[0]] | networks.get(key[1], {}))
    return [found[key] for key in keys]


def _key(value: Any) -> Any:
    """Return a hashable form of an attribute."""
    return str(value) if isinstance(value, (list, dict)) else value


def passed(context: RequestContext, rules: Sequence[str],
           projects: Collection[str | None]) -> dict[str | None, frozenset[str]]:
    """Return {project: those of ``rules`` that allow the caller to use the project's resources}."""
    targets = {project: target({'project_id': project}) for project in projects}
    return {project: frozenset([rule for rule in rules if allows(context, rule, where)])
            for project, where in targets.items()}
