"""Volume types: EC2's names of general purpose volumes are aliases of the default volume type of the cloud."""
from collections.abc import Mapping
from typing import TypedDict

from nova.ec2 import neutral
from nova.ec2 import operations
from nova.ec2 import tags

ALIASES = ('gp3', 'gp2', 'standard')
DEFAULT = 'standard'                             # EC2's oldest type, shown for volumes without an alias
NAME = tags.HIDDEN + 'volume-type'               # metadata item of a volume: its alias
# metadata item of a server: aliases of the volumes that were created with it, such as ``/dev/vda=gp3 /dev/vdb=gp2``
DEVICES = tags.HIDDEN + 'volume-types'
IOPS_PER_GIB, MIN_IOPS, MAX_IOPS = 3, 100, 16000           # performance of gp2 in EC2's documentation


class Attachment(TypedDict, total=False):
    """Attachment of a volume."""

    server_id: str
    device: str | None
    attached_at: str | None


class Volume(TypedDict, total=False):
    """Fields of a volume in the Block Storage API that the EC2 API reads."""

    id: str
    status: str
    size: int
    created_at: str
    availability_zone: str | None
    snapshot_id: str | None
    volume_type: str | None
    encrypted: bool
    multiattach: bool
    metadata: dict[str, str]
    attachments: list[Attachment]


def resolved(req: operations.Request, name: str | None) -> tuple[str | None, str | None]:
    """Return (volume type or None for the default type, alias or None) of the VolumeType in a request.

    If the cloud has a volume type with the name of an alias, this type is used.
    """
    if name not in ALIASES:
        return name or None, None
    known = {row['name'] for row in req.call('volume', 'GET', '/types')['volume_types']}
    return (name, None) if name in known else (None, name)


def text_of(aliases: Mapping[str, str | None]) -> str:
    """Return the text that stores aliases in a metadata item or an image property; empty for none or too many.

    :param aliases: {device name: volume type}
    """
    text = ' '.join(f'{device}={alias}' for device, alias in aliases.items() if alias in ALIASES)
    return text if len(text) <= tags.VALUE_LENGTH else ''


def of_text(text: str | None) -> dict[str, str]:
    """Parse the result of ``text_of``; malformed items are ignored, because users can change the text."""
    found = dict(each.split('=', 1) for each in (text or '').split() if '=' in each)
    return {device: alias for device, alias in found.items() if alias in ALIASES}


def aliases(req: operations.Request, rows: list[Volume]) -> dict[str, str]:
    """Return {UUID: alias} of volumes with an alias."""
    found = {row['id']: row['metadata'][NAME] for row in rows if row['metadata'].get(NAME) in ALIASES}
    left = [(row['id'], part) for row in rows if row['id'] not in found for part in row['attachments']]
    servers = {part['server_id'] for _uuid, part in left}
    if servers:
        held = {server['id']: server['metadata'] for server in req.pages('compute', '/servers/detail', 'servers')
                if server['id'] in servers}
        for uuid, part in left:
            alias = of_text(held.get(part['server_id'], {}).get(DEVICES)).get(part.get('device') or '')
            if alias:
                found[uuid] = alias
    return found


def performance(alias: str | None, size: int) -> dict[str, int]:
    """Return the performance that EC2 documents for an alias; the real performance depends on the volume type."""
    if alias == 'gp3':
        return {'Iops': neutral.BASE_IOPS, 'Throughput': neutral.BASE_THROUGHPUT}
    return {'Iops': min(MAX_IOPS, max(MIN_IOPS, IOPS_PER_GIB * size))} if alias == 'gp2' else {}
