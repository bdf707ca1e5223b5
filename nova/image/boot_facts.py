"""Read facts about a bootable disk image from its raw bytes: partition table, firmware, guest agent."""
import dataclasses
import os
import struct
from typing import BinaryIO
import uuid

SECTOR = 512
ENTRIES = 128                            # maximum number of GPT partition entries that are read
ENTRY_BYTES = (128, 4096)                # minimum and maximum size of an entry
EFI_SYSTEM = uuid.UUID('c12a7328-f81f-11d2-ba4b-00a0c93ec93b')
BIOS_BOOT = uuid.UUID('21686148-6449-6e6f-744e-656564454649')
# {type of a root partition in the Discoverable Partitions Specification: value of the image property hw_architecture}
ROOTS = {uuid.UUID('4f68bce3-e8cd-4db1-96e7-fbcaf984b709'): 'x86_64',
         uuid.UUID('b921b045-1df0-41c3-af44-4c6f280d3fae'): 'aarch64'}
MBR_EFI_SYSTEM, MBR_GPT, MBR_EMPTY = 0xEF, 0xEE, 0x00
# The binary of QEMU's guest agent contains this channel name; other programs of a distribution do not.
AGENT = b'/dev/virtio-ports/org.qemu.guest_agent.0'
CHUNK = 4 << 20


@dataclasses.dataclass(frozen=True)
class Facts:
    """Boot requirements of a disk.

    partitioned     whether the disk has a partition table
    bios, uefi      whether this firmware can boot the disk
    architecture    hw_architecture according to the type of the root partition, or None
    agent           whether QEMU's guest agent was found; a compressed file system hides the agent
    """

    partitioned: bool
    bios: bool
    uefi: bool
    architecture: str | None
    agent: bool


def read(file: BinaryIO) -> Facts:
    """Read the Facts of a raw disk from an open file."""
    first = _at(file, 0, SECTOR)
    if first[510:] != b'\x55\xaa':
        return Facts(False, False, False, None, False)
    types = {entry[4] for entry in (first[446 + 16 * number:462 + 16 * number] for number in range(4))} - {MBR_EMPTY}
    boots = any(first[:440])                 # True if the boot sector has code
    agent = _contains(file, AGENT)
    if MBR_GPT not in types:
        active = any(first[446 + 16 * number] == 0x80 for number in range(4))
        return Facts(bool(types), boots and active, MBR_EFI_SYSTEM in types, None, agent)
    partitions = _gpt(file)
    architecture = next((name for kind, name in ROOTS.items() if kind in partitions), None)
    return Facts(bool(partitions), boots and BIOS_BOOT in partitions, EFI_SYSTEM in partitions, architecture, agent)


def _gpt(file: BinaryIO) -> set[uuid.UUID]:
    """Return the partition types of a GPT, or an empty set if its header is invalid."""
    header = _at(file, SECTOR, SECTOR)
    if header[:8] != b'EFI PART':
        return set()
    start, = struct.unpack_from('<Q', header, 72)
    count, size = struct.unpack_from('<II', header, 80)
    if not ENTRY_BYTES[0] <= size <= ENTRY_BYTES[1]:
        return set()
    found = (_at(file, start * SECTOR + number * size, 16) for number in range(min(count, ENTRIES)))
    return {uuid.UUID(bytes_le=entry) for entry in found if len(entry) == 16 and any(entry)}


def _at(file: BinaryIO, offset: int, size: int) -> bytes:
    """Return the bytes at an offset, or fewer bytes at the end of the file."""
    if offset >= os.fstat(file.fileno()).st_size:
        return b''
    return os.pread(file.fileno(), size, offset)


def _contains(file: BinaryIO, text: bytes) -> bool:
    """Return whether a file contains these bytes; skips holes."""
    descriptor, end = file.fileno(), os.fstat(file.fileno()).st_size
    offset = 0
    while offset < end:
        try:
            begin = os.lseek(descriptor, offset, os.SEEK_DATA)
            stop = os.lseek(descriptor, begin, os.SEEK_HOLE)
        except OSError:                      # the rest of the file is a hole
            return False
        rest = b''
        for place in range(begin, stop, CHUNK):
            chunk = os.pread(descriptor, min(CHUNK, stop - place), place)
            if text in rest + chunk:
                return True
            rest = chunk[-len(text):]
        offset = stop
    return False
