"""Parsers of disk format headers: virtual size, and references to other files.

A parser is a generator that fills a Report. To read, it yields (offset, length), and the caller sends the bytes at this
offset. Offsets beyond the first 64 KiB must ascend. Layouts follow the published format descriptions.
"""
from collections.abc import Callable, Generator
import dataclasses
import re
import struct
import uuid

Parser = Generator[tuple[int, int], bytes, None]
SECTOR = 512


@dataclasses.dataclass
class Report:
    """Result of an inspection.

    format        the detected format; 'raw' if none was detected
    matches       formats that have their signature (magic number) in the file
    size          bytes of the file
    virtual_size  bytes of the guest's disk, or None if the header does not contain it
    findings      reasons why tools such as qemu-img must not open the file
    """

    format: str = 'raw'
    matches: tuple[str, ...] = ()
    size: int = 0
    virtual_size: int | None = None
    findings: list[str] = dataclasses.field(default_factory=list)


class Malformed(Exception):
    """The header is inconsistent or violates the format's description."""


def _read(offset: int, length: int) -> Generator[tuple[int, int], bytes, bytes]:
    data = yield offset, length
    if len(data) < length:
        raise Malformed('its header is cut off')
    return data


# ---- qcow2 -------------------------------------------------------------------

QCOW2_FEATURES = 0b11111  # incompatible features: dirty, corrupt, external data file, compression type, extended L2
QCOW2_EXTENSIONS_MAX = 48
QCOW2_HEADER_MAX = 64 * 1024        # size of the part of the first cluster that may contain header extensions
QCOW2_DATA_FILE = 0x44415441
QCOW2_ENCRYPTION = 0x0537be77


def qcow2(report: Report) -> Parser:
    header = yield from _read(0, 72)
    (version, backing_offset, backing_size, cluster_bits, size,
     encryption) = struct.unpack_from('>IQIIQI', header, 4)
    if version not in (2, 3):
        raise Malformed(f'qcow2 version {version} is not known')
    if not 9 <= cluster_bits <= 21:
        raise Malformed('its qcow2 cluster size is not valid')
    report.virtual_size = size
    if backing_offset or backing_size:
        report.findings.append('it has a backing file')
    if encryption:
        report.findings.append('it is encrypted')
    end, first = 1 << cluster_bits, 72
    if version == 3:
        header = yield from _read(0, 104)
        features, _compatible, _autoclear, _order, first = struct.unpack_from('>QQQII', header, 72)
        if features & 2:
            report.findings.append('it is marked as corrupt')
        if features & 4:
            report.findings.append('it has an external data file')
        if features & ~QCOW2_FEATURES:
            report.findings.append('it uses qcow2 features that are not known')
        if first < 104 or first % 8 or first > end:
            raise Malformed('its qcow2 header length is not valid')
    yield from _qcow2_extensions(report, first, end)


def _qcow2_extensions(report: Report, offset: int, end: int) -> Parser:
    for _count in range(QCOW2_EXTENSIONS_MAX):
        if offset + 8 > end:
            return
        if offset + 8 > QCOW2_HEADER_MAX:
            raise Malformed('its qcow2 header is larger than any that known tools write')
        data = yield offset, 8
        if len(data) < 8:
            return
        kind, length = struct.unpack('>II', data)
        if kind == 0:
            return
        if kind == QCOW2_DATA_FILE:
            report.findings.append('it has an external data file')
        if kind == QCOW2_ENCRYPTION:
            report.findings.append('it is encrypted')
        offset += 8 + (length + 7) // 8 * 8
        if offset > end:
            raise Malformed('a qcow2 header extension is larger than the header')
    raise Malformed('it has too many qcow2 header extensions')


# ---- VMDK --------------------------------------------------------------------

VMDK_GD_AT_END = 0xffffffffffffffff
VMDK_TYPES = (b'monolithicsparse', b'streamoptimized')
VMDK_WORDS = (b'createtype', b'parentfilenamehint')
VMDK_LINE = re.compile(rb'[ \t]*([A-Za-z]\w*)[ \t]*=[ \t]*"?([^"\r]*)"?')
VMDK_EXTENT = re.compile(rb'[ \t]*(?:RW|RDONLY|NOACCESS)\s+\d+\s+(\S+)(?:\s+"([^"]*)")?', re.I)


def vmdk(report: Report) -> Parser:
    header = yield from _read(0, SECTOR)
    version, _flags, capacity, _grain, place, length = struct.unpack_from('<IIQQQQ', header, 4)
    if version not in (1, 2, 3):
        raise Malformed(f'VMDK version {version} is not known')
    if not capacity:
        raise Malformed('its VMDK header has no capacity and leaves the layout to a descriptor')
    if not place or not length:
        raise Malformed('its VMDK header has no descriptor')
    report.virtual_size = capacity * SECTOR
    # tools read at least 20 sectors, even if the header states fewer
    descriptor = yield place * SECTOR, max(length, 20) * SECTOR
    if len(descriptor) < length * SECTOR:
        raise Malformed('its header is cut off')
    text, _, rest = descriptor.partition(b'\0')
    _vmdk_descriptor(report, text)
    if any(word in rest[:max(0, length * SECTOR - len(text))].lower() for word in VMDK_WORDS):
        report.findings.append('its VMDK descriptor has keywords after its end')


def _vmdk_descriptor(report: Report, text: bytes) -> None:
    values: dict[bytes, list[bytes]] = {}
    extents: list[re.Match[bytes]] = []
    words = {word: text.lower().count(word) for word in VMDK_WORDS}
    for line in text.split(b'\n'):
        extent = VMDK_EXTENT.match(line)
        if extent:
            extents.append(extent)
            continue
        match = VMDK_LINE.match(line)
        if match:
            values.setdefault(match[1].lower(), []).append(match[2].strip().lower())
    if len(values.get(b'createtype', ())) != 1 or values[b'createtype'][0] not in VMDK_TYPES:
        report.findings.append('its VMDK type is neither monolithicSparse nor streamOptimized')
    if words[b'createtype'] > 1:
        report.findings.append('its VMDK descriptor has more than one type')
    if words[b'parentfilenamehint'] or any(v != b'ffffffff' for v in values.get(b'parentcid', ())):
        report.findings.append('it has a parent file')
    if len(extents) != 1 or extents[0][1].upper() != b'SPARSE':
        report.findings.append('its VMDK extents lie in other files')
    elif re.search(rb'[/\\]|\.\.', extents[0][2] or b''):
        report.findings.append('its VMDK extent names a path')


def vmdk_tail(report: Report, head: bytes, tail: bytes) -> None:
    """Check the footer of a stream-optimized file: tools use this second header instead of the first."""
    if len(head) < SECTOR or struct.unpack_from('<Q', head, 56)[0] != VMDK_GD_AT_END:
        return
    footer = tail[-2 * SECTOR:-SECTOR] if len(tail) >= 2 * SECTOR else b''
    if footer[:4] != b'KDMV' or footer[4:48] != head[4:48]:
        raise Malformed('its VMDK footer does not agree with its header')


def cowd(report: Report) -> Parser:
    raise Malformed('its VMDK type is COWD, whose extents lie in other files')
    yield 0, 0


def vmdk_descriptor(report: Report) -> Parser:
    raise Malformed('it is a VMDK descriptor, whose extents lie in other files')
    yield 0, 0


# ---- VHD ---------------------------------------------------------------------

VHD_FIXED, VHD_DYNAMIC, VHD_DIFFERENCING = 2, 3, 4


def _vhd_footer(report: Report, footer: bytes) -> int:
    size, kind = struct.unpack_from('>Q4xI', footer, 48)
    report.virtual_size = size
    if kind == VHD_DIFFERENCING:
        report.findings.append('it has a parent file')
    elif kind not in (VHD_FIXED, VHD_DYNAMIC):
        raise Malformed('its VHD type is not known')
    return kind


def vhd(report: Report) -> Parser:
    footer = yield from _read(0, SECTOR)
    if _vhd_footer(report, footer) != VHD_DYNAMIC:
        raise Malformed('its VHD header is not the header of a dynamic disk')


def vhd_tail(report: Report, head: bytes, tail: bytes) -> None:
    at_end = next((tail[-back:] for back in (512, 511) if tail[-back:-back + 8] == b'conectix'), None)
    if at_end is None:
        raise Malformed('its VHD footer is missing')
    if head.startswith(b'conectix'):
        if at_end[8:64] != head[8:64]:
            raise Malformed('its VHD footer does not agree with its header')
    elif _vhd_footer(report, at_end) != VHD_FIXED:
        raise Malformed('its VHD header is missing')


# ---- VHDX --------------------------------------------------------------------

VHDX_METADATA = uuid.UUID('8b7ca206-4790-4b9a-b8fe-575f050f886e').bytes_le
VHDX_PARAMETERS = uuid.UUID('caa16737-fa36-4d43-b3b6-33f0aa44e76b').bytes_le
VHDX_SIZE = uuid.UUID('2fa54224-cd1b-4876-b211-5dbed83bf4b8').bytes_le
VHDX_PARENT = uuid.UUID('a8d35f2d-b30b-454d-abf7-d3d84834ab0c').bytes_le
KIB = 1024


def vhdx(report: Report) -> Parser:
    for place in (64 * KIB, 128 * KIB):
        header = yield from _read(place, 80)
        if header.startswith(b'head') and header[48:64] != bytes(16):
            raise Malformed('its VHDX log has not been replayed')
    tables = []
    for place in (192 * KIB, 256 * KIB):
        table = yield from _read(place, 64 * KIB)
        if table.startswith(b'regi'):
            tables.append(table)
    if not tables:
        raise Malformed('it has no VHDX region table')
    regions = {_vhdx_metadata_region(table) for table in tables}
    if len(regions) != 1:
        raise Malformed('its VHDX region tables do not agree')
    offset = regions.pop()
    if offset < 320 * KIB:
        raise Malformed('its VHDX metadata region overlaps the header')
    metadata = yield from _read(offset, 64 * KIB)
    yield from _vhdx_metadata(report, offset, metadata)


def _vhdx_metadata_region(table: bytes) -> int:
    count = struct.unpack_from('<I', table, 8)[0]
    if count > 2047:
        raise Malformed('its VHDX region table is not valid')
    places = [struct.unpack_from('<Q', table, entry + 16)[0] for entry in range(16, 16 + count * 32, 32)
              if table[entry:entry + 16] == VHDX_METADATA]
    if len(places) != 1:
        raise Malformed('its VHDX region table does not have one metadata region')
    return places[0]


def _vhdx_metadata(report: Report, offset: int, metadata: bytes) -> Parser:
    count = struct.unpack_from('<H', metadata, 10)[0]
    if not metadata.startswith(b'metadata') or count > 2047:
        raise Malformed('its VHDX metadata is not valid')
    items: dict[bytes, list[int]] = {}
    for entry in range(32, 32 + count * 32, 32):
        items.setdefault(metadata[entry:entry + 16], []).append(struct.unpack_from('<II', metadata, entry + 16)[0])
    if VHDX_PARENT in items:
        report.findings.append('it has a parent file')
    if any(len(items.get(item, ())) != 1 for item in (VHDX_SIZE, VHDX_PARAMETERS)):
        raise Malformed('its VHDX metadata is not valid')
    wanted = sorted([(items[VHDX_PARAMETERS][0], 'parameters'), (items[VHDX_SIZE][0], 'size')])
    if wanted[0][0] < 64 * KIB or wanted[1][0] - wanted[0][0] < 8 or wanted[1][0] > 1024 * KIB - 8:
        raise Malformed('its VHDX metadata is not valid')
    for place, name in wanted:
        data = yield from _read(offset + place, 8)
        if name == 'size':
            report.virtual_size = struct.unpack('<Q', data)[0]
        elif struct.unpack_from('<I', data, 4)[0] & 2:
            report.findings.append('it has a parent file')


# ---- VDI, QED, formats that are never accepted -------------------------------

VDI_NORMAL, VDI_STATIC = 1, 2


def vdi(report: Report) -> Parser:
    header = yield from _read(0, SECTOR)
    kind = struct.unpack_from('<I', header, 76)[0]
    report.virtual_size = struct.unpack_from('<Q', header, 368)[0]
    if kind not in (VDI_NORMAL, VDI_STATIC) or header[0x1a8:0x1c8] != bytes(32):
        report.findings.append('it has a parent file')


def qed(report: Report) -> Parser:
    header = yield from _read(0, 64)
    features, = struct.unpack_from('<Q', header, 16)
    report.virtual_size = struct.unpack_from('<Q', header, 48)[0]
    if features & 1:
        report.findings.append('it has a backing file')


PARSERS: dict[str, Callable[[Report], Parser]] = {
    'qcow2': qcow2, 'vmdk': vmdk, 'cowd': cowd, 'vmdk-descriptor': vmdk_descriptor, 'vhd': vhd, 'vhdx': vhdx,
    'vdi': vdi, 'qed': qed}
TAILS = {'vmdk': vmdk_tail, 'vhd': vhd_tail}
