"""Inspect the headers of a disk image during its transfer, without external tools.

Images are untrusted. Some formats can refer to other files (backing files, external data files, extents, parents),
which tools then read on the host. So no tool opens an image before ``verify`` has passed. The inspector keeps the
first 64 KiB, the last 1.5 KiB and one window of at most 1 MiB, regardless of the input.

    inspector = Inspector()
    for chunk in chunks:
        inspector.feed(chunk)
    verify(inspector.finish(), 'qcow2', max_virtual_size)
"""
import os
from pathlib import Path

from nova import exception
from nova.image import formats
from nova.objects.image import Image

HEAD = 64 * 1024                 # ISO 9660 volume descriptors begin at 32 KiB
TAIL = 1536                      # VHD footer, VMDK footer and its end marker
WINDOW = 1024 * 1024             # maximum size of a supported header structure
STEPS = 64                       # maximum number of reads of one parser

# guests cannot boot from compressed disks, so disks must not be compressed; kernels and ramdisks may be compressed
COMPRESSED = frozenset({'gzip', 'xz', 'zstd', 'bzip2', 'lz4'})
BOOT_PARTS = frozenset({'raw', 'gpt', 'mbr', 'kernel', 'ramdisk'})
CONTENTS = BOOT_PARTS | COMPRESSED       # formats that cannot refer to other files
PLAIN = BOOT_PARTS | {'luks'}

ARCHIVE = 'archive'              # root file system of a container: disk_format raw, optionally compressed

# {disk_format: accepted formats of the data}
ACCEPTS = {
    'raw': PLAIN, ARCHIVE: PLAIN | COMPRESSED,
    'ami': PLAIN, 'aki': PLAIN | COMPRESSED, 'ari': PLAIN | COMPRESSED,
    'qcow2': {'qcow2'}, 'vmdk': {'vmdk'}, 'vhd': {'vhd'}, 'vhdx': {'vhdx'}, 'vdi': {'vdi'}, 'iso': {'iso'},
}

HYPERVISOR = ('hypervisor_type', 'img_hv_type')      # properties that name the image's hypervisor

# (format, offset, bytes)
SIGNATURES = (
    ('qed', 0, b'QED\0'),
    ('vmdk', 0, b'KDMV'),
    ('cowd', 0, b'COWD'),
    ('vhd', 0, b'conectix'),
    ('vhdx', 0, b'vhdxfile'),
    ('vdi', 0x40, b'\x7f\x10\xda\xbe'),
    ('iso', 0x8001, b'CD001'),
    ('iso', 0x8801, b'CD001'),
    ('iso', 0x9001, b'CD001'),
    ('luks', 0, b'LUKS\xba\xbe'),
    ('parallels', 0, b'WithoutFreeSpace'),
    ('parallels', 0, b'WithouFreSpacExt'),
    ('bochs', 0, b'Bochs Virtual HD Image'),
    ('cloop', 0, b'#!/bin/sh\n#V2.0 Format\nmodprobe cloop'),
    ('gpt', 0x200, b'EFI PART'),
    ('gpt', 0x1000, b'EFI PART'),
    ('kernel', 0x202, b'HdrS'),
    ('kernel', 0, b'\x7fELF'),
    ('kernel', 0x38, b'ARM\x64'),
    ('ramdisk', 0, b'070701'),
    ('ramdisk', 0, b'070702'),
    ('gzip', 0, b'\x1f\x8b\x08'),
    ('xz', 0, b'\xfd7zXZ\0'),
    ('zstd', 0, b'\x28\xb5\x2f\xfd'),
    ('lz4', 0, b'\x02\x21\x4c\x18'),
    ('lz4', 0, b'\x04\x22\x4d\x18'),
    *(('bzip2', 0, b'BZh%d' % level + magic) for level in range(1, 10)
      for magic in (b'1AY&SY', b'\x17\x72\x45\x38\x50\x90')),
)
# (format, offset from the end of the data, bytes)
TRAILERS = (('vhd', 512, b'conectix'), ('vhd', 511, b'conectix'), ('dmg', 512, b'koly'))


class Inspector:
    """Inspector of a stream of bytes; ``report`` has the results so far."""

    def __init__(self) -> None:
        self.report = formats.Report()
        self._head, self._tail = bytearray(), b''
        self._parser: formats.Parser | None = None
        self._started = False
        self._window: tuple[int, int, bytearray] | None = None    # (offset and length requested, bytes received so far)
        self._steps = 0

    def feed(self, chunk: bytes) -> None:
        """Inspect the next bytes; problems are added to ``report.findings`` immediately."""
        position = self.report.size
        self.report.size += len(chunk)
        if len(self._head) < HEAD:
            self._head += chunk[:HEAD - len(self._head)]
        self._tail = (self._tail + bytes(chunk[-TAIL:]))[-TAIL:]
        if not self._started and len(self._head) == HEAD:
            self._start()
        self._fill(position, chunk)

    def finish(self) -> formats.Report:
        """Return the complete Report after the last bytes."""
        if not self._started:
            self._start()
        while self._window:
            self._answer(bytes(self._window[2]))
        self._inspect_tail()
        if self.report.virtual_size is None and self.report.format in CONTENTS | {'luks', 'iso'}:
            self.report.virtual_size = self.report.size
        return self.report

    def _start(self) -> None:
        self._started = True
        matches = _matches(bytes(self._head))
        self._recognised(matches)
        parser = formats.PARSERS.get(self.report.format)
        if parser:
            self._parser = parser(self.report)
            self._answer(None)

    def _recognised(self, matches: list[str]) -> None:
        report = self.report
        report.matches = tuple(dict.fromkeys(report.matches + tuple(matches)))
        containers = [match for match in report.matches if match not in CONTENTS]
        report.format = (containers or [m for m in report.matches] or ['raw'])[0]
        tables = {'gpt', 'mbr'} & set(report.matches)
        if len(containers) > 1 or (tables and containers and containers[0] not in ('iso', 'vhd', 'luks')):
            names = ' and '.join(sorted({*containers, *tables}))
            report.findings.append(f'its data can be read as more than one format ({names})')

    def _fill(self, position: int, chunk: bytes) -> None:
        while self._window:
            offset, length, data = self._window
            start = offset + len(data) - position
            if start < 0:
                self._malformed('its header structures are not in ascending order')
                return
            data += chunk[start:start + length - len(data)]
            if len(data) < length:
                return
            self._answer(bytes(data))

    def _answer(self, data: bytes | None) -> None:
        """Send requested bytes to the parser until it requests bytes that have not arrived."""
        parser = self._parser
        assert parser is not None        # set by _start
        self._window = None
        try:
            while True:
                offset, length = next(parser) if data is None else parser.send(data)
                self._steps += 1
                if length > WINDOW or self._steps > STEPS:
                    raise formats.Malformed('its header is larger than any that known tools write')
                if offset + length > HEAD:
                    break
                data = bytes(self._head[offset:offset + length])
            already = bytes(self._head[offset:]) if offset < len(self._head) else b''
            self._window = (offset, length, bytearray(already))
        except StopIteration:
            pass
        except formats.Malformed as error:
            self._malformed(str(error))

    def _malformed(self, reason: str) -> None:
        self._window = None
        self.report.findings.append(reason)

    def _inspect_tail(self) -> None:
        tail, report = self._tail, self.report
        found = [name for name, back, magic in TRAILERS
                 if len(tail) >= back and tail[len(tail) - back:].startswith(magic)]
        if found and found[0] not in report.matches:
            self._recognised(found)
        check = formats.TAILS.get(report.format)
        if check:
            try:
                check(report, bytes(self._head), tail)
            except formats.Malformed as error:
                report.findings.append(str(error))


def _matches(head: bytes) -> list[str]:
    """Return the formats with a signature in the first 64 KiB, containers first."""
    found = [name for name, offset, magic in SIGNATURES if head.startswith(magic, offset)]
    if head.startswith(b'QFI\xfb'):
        found.append('qcow' if head[4:8] == b'\0\0\0\x01' else 'qcow2')
    if head[:21].lower() == b'# disk descriptorfile' or _is_descriptor(head[:4096]):
        found.append('vmdk-descriptor')
    if head[510:512] == b'\x55\xaa' and 'kernel' not in found and _partitioned(head[446:510]):
        found.append('mbr')
    return sorted(set(found), key=lambda name: (name in CONTENTS, name))


def _is_descriptor(head: bytes) -> bool:
    """Return whether the data is a VMDK descriptor: ``version =`` follows any comments and blank lines."""
    for line in head.split(b'\n'):
        line = line.strip()
        if line and not line.startswith(b'#'):
            return line.lower().startswith(b'version') and line[7:].lstrip().startswith(b'=')
    return False


def _partitioned(table: bytes) -> bool:
    entries = [table[index:index + 16] for index in range(0, 64, 16)]
    return all(entry[0] in (0, 0x80) for entry in entries) and any(entry[4] for entry in entries)


def inspect_file(path: Path | str) -> formats.Report:
    """Return the Report of a file; reads only its headers.

    :raises OSError: the file is not readable
    """
    inspector = Inspector()
    with open(path, 'rb') as file:
        size = os.fstat(file.fileno()).st_size
        inspector.feed(file.read(HEAD))
        inspector.report.size = size
        if not inspector._started:
            inspector._start()
        while inspector._window:
            offset, length, _data = inspector._window
            inspector._answer(os.pread(file.fileno(), length, offset) if offset < size else b'')
        inspector._tail = os.pread(file.fileno(), TAIL, max(0, size - TAIL))
        return inspector.finish()


def expected(image: Image) -> str:
    """Return the key of ACCEPTS for an image: its disk_format, or ARCHIVE for the root file system of a container."""
    properties = image['properties']
    if image['disk_format'] != 'raw':
        return str(image['disk_format'])
    if any(str(properties.get(name, '')).lower() == 'lxc' for name in HYPERVISOR):
        return ARCHIVE
    return 'raw'


def refusal(report: formats.Report, disk_format: str, max_virtual_size: int | None = None) -> str | None:
    """Return why an image with this ``disk_format`` must not be used, or None if it is acceptable.

    During an upload the report may be incomplete, but problems that it already contains remain valid.
    """
    accepted = ACCEPTS.get(disk_format)
    if accepted is None:
        return f'disk format {disk_format} is not supported'
    if report.format in COMPRESSED and report.format not in accepted:
        return f'its data is compressed with {report.format}. Decompress it before the upload'
    if report.format not in accepted and (len(report.matches) <= 1 or not report.findings):
        return f'its disk format is {disk_format}, but its data is {report.format}'
    if report.findings:
        return report.findings[0]
    if max_virtual_size and (report.virtual_size or 0) > max_virtual_size:
        return f'its virtual size of {report.virtual_size} bytes is over the limit of {max_virtual_size}'
    return None


def verify(report: formats.Report, disk_format: str, max_virtual_size: int | None = None, image_id: str = '',
           may_be_empty: bool = False) -> None:
    """Raise ImageUnacceptable unless the data has the image's disk format and refers to no other file.

    :param report: a complete Report
    :param max_virtual_size: maximum in bytes, or None for no limit
    :param may_be_empty: accept no data for a raw format, as the Image API does
    """
    reason = refusal(report, disk_format, max_virtual_size)
    if reason is None and not report.size and not may_be_empty:
        reason = 'it has no data, so a guest cannot boot from it'
    if reason is None and report.virtual_size is None:
        reason = 'its header has no virtual size'
    if reason:
        raise exception.ImageUnacceptable(image_id=image_id, reason=reason)
