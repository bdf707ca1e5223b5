"""Guaranteed bandwidth and packet rates: functions for the guarantees in a host's options, and for ports' requests."""
from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypedDict
import uuid

from oslo_config.cfg import ConfigOpts

from nova.objects import guarantees as names

if TYPE_CHECKING:
    from nova.db.tables.rows import QosMinimumsRow

Stated = dict[str, dict[str, int]]       # {resource class: {physical network, or '' for packet rates: amount}}

_GROUPS = uuid.UUID('0f1c6c2e-9a57-4a1e-8a0c-3f6f0f8f2a61')       # UUID namespace for ids of request groups


class RequestGroup(TypedDict):
    """Resources that one resource provider must supply together."""

    id: str
    required: list[str]
    resources: dict[str, int]


class ResourceRequest(TypedDict):
    """Resources that a port requests, in the format of the extension port-resource-request-groups."""

    request_groups: list[RequestGroup]
    same_subtree: list[str]


def stated(conf: ConfigOpts) -> Stated:
    """Parse [network] guaranteed_bandwidth and guaranteed_packet_rate of this host."""
    found: Stated = {}
    for item in conf.network.guaranteed_bandwidth:
        name, *amounts = item.rsplit(':', 2)
        for direction, amount in zip(names.DIRECTIONS, amounts, strict=True):
            found.setdefault(names.CLASSES[names.BANDWIDTH, direction][0], {})[name] = int(amount)
    rates = [int(amount) for amount in conf.network.guaranteed_packet_rate.split(':') if amount]
    for direction, rate in zip(('any',) if len(rates) == 1 else names.DIRECTIONS, rates):
        found[names.CLASSES[names.PACKET_RATE, direction][0]] = {'': rate}
    return found


def resource_request(port_id: str, rules: Iterable[QosMinimumsRow], physical_network: str | None,
                     ) -> ResourceRequest | None:
    """Return the resources that a port with these QoS rules requests, or None without such rules."""
    groups: dict[str, RequestGroup] = {}
    for rule in rules:
        required = ['CUSTOM_VNIC_TYPE_NORMAL']
        if rule['type'] == names.BANDWIDTH:
            required.insert(0, _trait(physical_network or names.TUNNELLED))
        group = groups.setdefault(rule['type'], {
            'id': str(uuid.uuid5(_GROUPS, f"{port_id}/{rule['type']}")), 'required': required, 'resources': {}})
        group['resources'][names.CLASSES[rule['type'], rule['direction']][0]] = rule['amount']
    if not groups:
        return None
    return {'request_groups': list(groups.values()), 'same_subtree': [group['id'] for group in groups.values()]}


def _trait(physical_network: str) -> str:
    """Return the trait of a physical network; trait names contain only characters that the Placement service allows."""
    if physical_network == names.TUNNELLED:
        return 'CUSTOM_NETWORK_TUNNEL_PROVIDER'
    return 'CUSTOM_PHYSNET_' + ''.join(char if char.isalnum() and char.isascii() else '_'
                                       for char in physical_network.upper())
