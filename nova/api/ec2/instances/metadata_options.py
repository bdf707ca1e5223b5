"""Whether an instance asks its metadata with session tokens alone, and how many hops the answers with tokens may go:
items of the server's metadata say so.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nova.api.ec2 import errors
from nova.api.ec2 import operations
from nova.api.metadata import tokens

# what there is; other values are refused
_ONLY = {'HttpEndpoint': 'enabled', 'HttpProtocolIpv6': 'disabled', 'InstanceMetadataTags': 'disabled'}
_HOPS = 'HttpPutResponseHopLimit'
TAKES = f'HttpTokens {_HOPS} ' + ' '.join(_ONLY)


def check(options: Mapping[str, Any]) -> None:
    """
    :raises Ec2Error: something that is not carried out
    """
    for name, value in options.items():
        if name == 'HttpTokens':
            if value not in ('optional', tokens.REQUIRED):
                raise errors.invalid(name, value)
        elif name == _HOPS:
            if not 1 <= value <= tokens.MAX_HOPS:
                raise errors.invalid(name, value)
        elif value != _ONLY.get(name):
            raise errors.unsupported(f'The metadata option {name} is not carried out with {str(value)[:64]!r}.')


def items(req: operations.Request, options: Mapping[str, Any]) -> dict[str, str]:
    """Items of a server's metadata that options set.

    :param options: that were checked
    :raises Ec2Error: who brings answers to guests in this cloud does not heed what is wanted
    """
    found = {tokens.PROPERTY: tokens.REQUIRED} if options.get('HttpTokens') == tokens.REQUIRED else {}
    if _HOPS in options:
        if not req.own_network:
            raise errors.unsupported(f'The metadata option {_HOPS} is not carried out in this cloud: guests have their '
                                     'metadata by proxies of the network service, which do not heed it.')
        found[tokens.HOPS] = str(options[_HOPS])
    return found


def shown(metadata: Mapping[str, str]) -> dict[str, Any] | None:
    """What an instance shows of it; nothing where its image or the deployment decides."""
    required, hops = metadata.get(tokens.PROPERTY) == tokens.REQUIRED, metadata.get(tokens.HOPS)
    if not required and hops is None:
        return None
    return {'State': 'applied', 'HttpTokens': tokens.REQUIRED if required else None, 'HttpEndpoint': 'enabled',
            _HOPS: None if hops is None else tokens.hops(hops)}
