"""Whether an instance asks its metadata with session tokens alone: an item of the server's metadata says so."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nova.api.ec2 import errors
from nova.api.metadata import tokens

# what there is; other values are refused
_ONLY = {'HttpEndpoint': 'enabled', 'HttpProtocolIpv6': 'disabled', 'InstanceMetadataTags': 'disabled'}
TAKES = 'HttpTokens ' + ' '.join(_ONLY)


def check(options: Mapping[str, Any]) -> None:
    """
    :raises Ec2Error: something that is not carried out
    """
    for name, value in options.items():
        if name == 'HttpTokens':
            if value not in ('optional', tokens.REQUIRED):
                raise errors.invalid(name, value)
        elif value != _ONLY.get(name):
            raise errors.unsupported(f'The metadata option {name} is not carried out with {str(value)[:64]!r}.')


def of_launch(given: Mapping[str, Any]) -> dict[str, str]:
    """Items of the metadata of servers that a request starts."""
    required = (given.get('MetadataOptions') or {}).get('HttpTokens') == tokens.REQUIRED
    return {tokens.PROPERTY: tokens.REQUIRED} if required else {}


def shown(metadata: Mapping[str, str]) -> dict[str, str] | None:
    """What an instance shows of it; nothing where its image or the deployment decides."""
    if metadata.get(tokens.PROPERTY) != tokens.REQUIRED:
        return None
    return {'State': 'applied', 'HttpTokens': tokens.REQUIRED, 'HttpEndpoint': 'enabled'}
