"""Metadata options of instances: required session tokens and hop limit, stored in the server's metadata."""
from collections.abc import Mapping

from nova.api.metadata import tokens
from nova.ec2 import errors
from nova.ec2 import operations
from nova.json_types import JsonDocument

# only supported values
_ONLY = {'HttpEndpoint': 'enabled', 'HttpProtocolIpv6': 'disabled', 'InstanceMetadataTags': 'disabled'}
_HOPS = 'HttpPutResponseHopLimit'
TAKES = f'HttpTokens {_HOPS} ' + ' '.join(_ONLY)


def check(options: Mapping[str, str | int]) -> None:
    """Check metadata options.

    :raises Ec2Error: an unsupported option
    """
    for name, value in options.items():
        if name == 'HttpTokens':
            if value not in ('optional', tokens.REQUIRED):
                raise errors.invalid(name, value)
        elif name == _HOPS:
            if not 1 <= int(value) <= tokens.MAX_HOPS:
                raise errors.invalid(name, value)
        elif value != _ONLY.get(name):
            raise errors.unsupported(f'The metadata option {name} does not support {str(value)[:64]!r}.')


def items(req: operations.Request, options: Mapping[str, str | int]) -> dict[str, str]:
    """Return the metadata items for options.

    :param options: checked options
    :raises Ec2Error: the metadata proxies of this cloud do not support the hop limit
    """
    found = {tokens.PROPERTY: tokens.REQUIRED} if options.get('HttpTokens') == tokens.REQUIRED else {}
    if _HOPS in options:
        if not req.own_network:
            raise errors.unsupported(f'This cloud does not support the metadata option {_HOPS}: the metadata '
                                     'proxies of its network service ignore it.')
        found[tokens.HOPS] = str(options[_HOPS])
    return found


def shown(metadata: Mapping[str, str]) -> JsonDocument:
    """Return the options of an instance. Requirements that the image or the deployment sets are not shown."""
    hops = metadata.get(tokens.HOPS)
    return {'State': 'applied', **_ONLY,
            'HttpTokens': tokens.REQUIRED if metadata.get(tokens.PROPERTY) == tokens.REQUIRED else 'optional',
            _HOPS: tokens.MAX_HOPS if hops is None else tokens.hops(hops)}
