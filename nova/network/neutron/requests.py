"""Resource requests of ports (``resource_request``): pure functions.

The extension port-resource-request allows one group, ``{'required', 'resources'}``; port-resource-request-groups allows
several, ``{'request_groups': [{'id', 'required', 'resources'}], 'same_subtree': [ids]}``.
"""
from collections.abc import Iterable

from nova.network.neutron import documents
from nova.network.neutron.documents import Port

Query = list[tuple[str, str]]
Allocation = dict[str, dict[str, int]]          # {'resources': {class: amount}}
Providers = str | dict[str, str]      # id of the resource provider that serves a port, or {group: id}

ONE = 'port'                          # group id for a request that consists of one group without an id


def groups(port: Port) -> list[documents.RequestGroup]:
    """Return [{'id', 'required': [trait], 'resources': {class: amount}}], or [] without a request."""
    request = port.get('resource_request') or {}
    if 'request_groups' in request:
        return list(request['request_groups'] or ())
    if not request.get('resources'):
        return []
    return [{'id': ONE, 'required': request.get('required') or [], 'resources': request.get('resources') or {}}]


def query(ports: Iterable[Port], root: str | None = None) -> Query:
    """Return query parameters for allocation candidates with the resources of all these ports.

    :param root: uuid of one host's provider, to restrict the candidates to it
    """
    found: Query = [('group_policy', 'none')]
    for port in ports:
        for group in groups(port):
            suffix = _suffix(port, group['id'])
            found.append((f'resources{suffix}', ','.join(
                f'{name}:{amount}' for name, amount in sorted(group['resources'].items()))))
            if group['required']:
                found.append((f'required{suffix}', ','.join(sorted(group['required']))))
            if root is not None:
                found.append((f'in_tree{suffix}', root))
        subtree = (port.get('resource_request') or {}).get('same_subtree') or ()
        if len(subtree) > 1:
            found.append(('same_subtree', ','.join(_suffix(port, ident) for ident in subtree)))
    return found


def allocation(port: Port, mappings: dict[str, list[str]]) -> Providers:
    """Return the binding profile value that names the serving providers: an id, or {group: id}.

    :param mappings: {suffix: [provider]} of an allocation candidate
    """
    found = {group['id']: mappings[_suffix(port, group['id'])][0] for group in groups(port)}
    return found[ONE] if ONE in found else found


def allocation_value(port: Port, allocations: dict[str, Allocation]) -> Providers | None:
    """Return the binding profile value for existing allocations {provider: allocation}, or None if a group has none.

    Groups are matched by resource class: no two groups of a port have a class in common.
    """
    mappings = {}
    for group in groups(port):
        serving = [ident for ident, each in allocations.items()
                   if all(each['resources'].get(name, 0) >= amount for name, amount in group['resources'].items())]
        if not serving:
            return None
        mappings[_suffix(port, group['id'])] = serving
    return allocation(port, mappings)


def _suffix(port: Port, group: str) -> str:
    return f'_{port["id"]}' if group == ONE else f'_{group}'
