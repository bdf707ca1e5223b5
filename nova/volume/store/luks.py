"""The header of an encrypted volume (LUKS, version 1): https://gitlab.com/cryptsetup/cryptsetup/-/wikis/Specification

Only rows say what is encrypted; a guest may write whatever it wants to a volume that is not.
"""
from __future__ import annotations

from nova import exception

MAGIC = b'LUKS\xba\xbe\x00\x01'
PAYLOAD_AT, SECTOR = 104, 512            # where it says in which sector the blocks of the volume begin
MOST_BYTES = 16 * 1024 ** 2              # of a header; QEMU's have 2 MiB


def header_bytes(path: str) -> int:
    """Bytes of a file before the blocks of its volume.

    :raises InvalidVolume: it has no such header, or is gone
    """
    try:
        with open(path, 'rb') as file:
            header = file.read(PAYLOAD_AT + 4)
    except (FileNotFoundError, PermissionError):
        raise exception.InvalidVolume(reason='its file is gone, or belongs to another user.') from None
    found = int.from_bytes(header[PAYLOAD_AT:]) * SECTOR
    if not header.startswith(MAGIC) or len(header) < PAYLOAD_AT + 4 or not 0 < found <= MOST_BYTES:
        raise exception.InvalidVolume(reason='it is to be encrypted, and its file has no header of LUKS.')
    return found
