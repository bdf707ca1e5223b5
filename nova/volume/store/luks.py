"""LUKS header (version 1) of encrypted volumes: https://gitlab.com/cryptsetup/cryptsetup/-/wikis/Specification

The row of a volume records its encryption, because a guest can write a LUKS header to an unencrypted volume.
"""
from nova import exception

MAGIC = b'LUKS\xba\xbe\x00\x01'
PAYLOAD_AT, SECTOR = 104, 512   # byte offset of the field with the number of the first payload sector; sector size
MAX_HEADER_BYTES = 16 * 1024 ** 2              # maximum size of a header; QEMU writes 2 MiB


def header_bytes(path: str) -> int:
    """Return the size of the header in bytes.

    :raises InvalidVolume: the file is missing or has no valid header
    """
    try:
        with open(path, 'rb') as file:
            header = file.read(PAYLOAD_AT + 4)
    except (FileNotFoundError, PermissionError):
        raise exception.InvalidVolume(reason='its file is missing or belongs to another user.') from None
    found = int.from_bytes(header[PAYLOAD_AT:]) * SECTOR
    if not header.startswith(MAGIC) or len(header) < PAYLOAD_AT + 4 or not 0 < found <= MAX_HEADER_BYTES:
        raise exception.InvalidVolume(reason='it should be encrypted, but its file has no LUKS header.')
    return found
