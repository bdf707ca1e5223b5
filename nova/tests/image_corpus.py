"""Disk images for tests: made by hand, so that each has exactly one thing wrong, or by qemu-img where it is there."""
import shutil
import struct
import subprocess
import uuid

SECTOR = 512
MIB = 2 ** 20

qemu_img = shutil.which('qemu-img')


def make(path, fmt, size='4M', options=None, backing=None):
    """Create an image with qemu-img."""
    command = [qemu_img, 'create', '-q', '-f', fmt]
    if options:
        command += ['-o', options]
    if backing:
        command += ['-b', str(backing), '-F', 'raw']
    subprocess.run([*command, str(path), size], check=True, timeout=60)
    return path


def convert(source, path, fmt, options=None):
    """Convert a raw file with qemu-img."""
    command = [qemu_img, 'convert', '-q', '-f', 'raw', '-O', fmt]
    subprocess.run([*command, *(['-o', options] if options else []), str(source), str(path)], check=True, timeout=60)
    return path


def qcow2(*, version=3, size=MIB, backing=b'', features=0, extensions=(), encryption=0, cluster_bits=16,
          header_length=104):
    """The first cluster of a qcow2 image.

    :param extensions: [(type, bytes)]
    """
    area = b''.join(struct.pack('>II', kind, len(data)) + data + bytes(-len(data) % 8) for kind, data in extensions)
    area += bytes(8)
    start = header_length if version == 3 else 72
    backing_offset = start + len(area) if backing else 0
    header = b'QFI\xfb' + struct.pack('>IQIIQIIQQIIQ', version, backing_offset, len(backing), cluster_bits, size,
                                      encryption, 1, 0x30000, 0x10000, 1, 0, 0)
    if version == 3:
        header += struct.pack('>QQQII', features, 0, 0, 4, header_length)
    data = header.ljust(start, b'\0') + area + backing
    return data.ljust(4 << 16, b'\0')


VMDK_TEXT = """# Disk DescriptorFile
version=1
CID=fffffffe
parentCID=ffffffff
createType="{create_type}"
{extents}
ddb.virtualHWVersion = "4"
"""


def vmdk(*, create_type='monolithicSparse', extents='RW 2048 SPARSE "disk.vmdk"', capacity=2048, version=1, more='',
         place=1, length=20, directory_end=False):
    """A sparse VMDK header with its descriptor."""
    text = VMDK_TEXT.format(create_type=create_type, extents=extents) + more
    header = b'KDMV' + struct.pack('<IIQQQQIQQQ', version, 3, capacity, 128, place, length, 512, 21,
                                   0xffffffffffffffff if directory_end else 26, 128)
    return (header.ljust(SECTOR, b'\0') + text.encode()).ljust(128 * 1024, b'\0')


def vmdk_descriptor(create_type='monolithicFlat', extents='RW 2048 FLAT "/etc/passwd" 0'):
    return VMDK_TEXT.format(create_type=create_type, extents=extents).encode()


def vhd_footer(kind=2, size=MIB):
    return b'conectix'.ljust(48, b'\0') + struct.pack('>QII', size, 0, kind) + bytes(SECTOR - 64)


def vhdx(*, size=MIB, parent_item=False, has_parent=False, log=False, metadata_at=2 * MIB):
    """A VHDX file's header, region tables and metadata."""
    data = bytearray(metadata_at + MIB)
    data[:8] = b'vhdxfile'
    for place in (0x10000, 0x20000):
        data[place:place + 4] = b'head'
        if log:
            data[place + 48:place + 64] = b'\x11' * 16
    for place in (0x30000, 0x40000):
        data[place:place + 16] = b'regi' + struct.pack('<III', 0, 1, 0)
        data[place + 16:place + 48] = (uuid.UUID('8b7ca206-4790-4b9a-b8fe-575f050f886e').bytes_le
                                       + struct.pack('<QII', metadata_at, MIB, 1))
    items = [('caa16737-fa36-4d43-b3b6-33f0aa44e76b', 0x10000), ('2fa54224-cd1b-4876-b211-5dbed83bf4b8', 0x10008)]
    if parent_item:
        items.append(('a8d35f2d-b30b-454d-abf7-d3d84834ab0c', 0x10020))
    table = b'metadata' + struct.pack('<HH', 0, len(items)) + bytes(20)
    for item, place in items:
        table += uuid.UUID(item).bytes_le + struct.pack('<IIII', place, 8, 0, 0)
    data[metadata_at:metadata_at + len(table)] = table
    values = struct.pack('<IIQ', MIB, 2 if has_parent else 0, size)
    data[metadata_at + 0x10000:metadata_at + 0x10010] = values
    return bytes(data)


def vdi(*, kind=1, size=MIB, parent=b''):
    header = bytearray(1024)
    header[0x40:0x48] = b'\x7f\x10\xda\xbe' + struct.pack('<I', 0x10001)
    struct.pack_into('<II', header, 0x48, 0x190, kind)
    struct.pack_into('<Q', header, 0x170, size)
    header[0x1b8:0x1b8 + len(parent)] = parent
    return bytes(header).ljust(MIB, b'\0')


def qed(features=0):
    return b'QED\0' + struct.pack('<IIIQQQQQ', 65536, 4, 1, features, 0, 0, 65536, MIB) + bytes(65536)


def iso(over=b''):
    """An ISO 9660 image, ``over`` written over its unused start."""
    data = bytearray(64 * 1024)
    data[0x8000:0x8006] = b'\1CD001'
    data[:len(over)] = over
    return bytes(data)


def mbr(over=b''):
    """A disk with one partition."""
    data = bytearray(MIB)
    data[446:462] = b'\x80\0\0\0\x83\0\0\0' + struct.pack('<II', 2048, 2048)
    data[510:512] = b'\x55\xaa'
    data[:len(over)] = over
    return bytes(data)


def gpt():
    data = bytearray(mbr())
    data[450] = 0xee
    data[512:520] = b'EFI PART'
    return bytes(data)


def kernel():
    data = bytearray(32 * 1024)
    data[:2] = b'MZ'
    data[510:518] = b'\x55\xaa\xeb\x66HdrS'
    return bytes(data)


LUKS = b'LUKS\xba\xbe\0\1'.ljust(MIB, b'\0')
RAMDISK = b'\x1f\x8b\x08'.ljust(4096, b'\x55')
RAW = b'\xa5' * 4096

# (name, bytes, declared format, word of the reason): refused before any tool sees them.
DANGEROUS = (
    ('qcow2 v2 with backing file', qcow2(version=2, backing=b'/etc/passwd'), 'qcow2', 'backing'),
    ('qcow2 v3 with backing file', qcow2(backing=b'/etc/passwd'), 'qcow2', 'backing'),
    ('qcow2 with json backing', qcow2(backing=b'json:{"driver":"file"}'), 'qcow2', 'backing'),
    ('qcow2 with data file bit', qcow2(features=4), 'qcow2', 'external data'),
    ('qcow2 with data file extension', qcow2(extensions=[(0x44415441, b'/etc/passwd')]), 'qcow2', 'external data'),
    ('qcow2 v2 with data file extension',
     qcow2(version=2, extensions=[(0x44415441, b'/etc/passwd')]), 'qcow2', 'external data'),
    ('qcow2 with data file after a longer extension',
     qcow2(extensions=[(0x6803f857, b'x' * 4801), (0x44415441, b'/etc/shadow')]), 'qcow2', 'external data'),
    ('qcow2 with a data file behind 64 KiB of extensions',
     qcow2(cluster_bits=21, extensions=[(7, bytes(65536)), (0x44415441, b'/etc/shadow')]), 'qcow2', 'larger'),
    ('qcow2 with unknown features', qcow2(features=1 << 40), 'qcow2', 'not known'),
    ('qcow2 of version 4', qcow2(version=4), 'qcow2', 'not known'),
    ('qcow2 encrypted', qcow2(encryption=2), 'qcow2', 'encrypted'),
    ('qcow2 with a huge extension', b''.join([qcow2()[:104], b'\0\0\0\7\xff\xff\xff\xff', bytes(70000)]), 'qcow2',
     'extension'),
    ('qcow2 cut off', qcow2()[:60], 'qcow2', 'cut off'),
    ('qcow2 as raw', qcow2(), 'raw', 'is qcow2'),
    ('qcow2 as ami', qcow2(backing=b'/etc/passwd'), 'ami', 'is qcow2'),
    ('qcow2 as iso', qcow2(), 'iso', 'is qcow2'),
    ('qcow 1', b'QFI\xfb\0\0\0\1' + bytes(4096), 'qcow2', 'qcow'),
    ('raw as qcow2', RAW, 'qcow2', 'is raw'),
    ('nothing as qcow2', b'', 'qcow2', 'is raw'),
    *((f'{name} as {declared}', data.ljust(4096, b'U'), declared, f'is compressed with {name}. Decompress it')
      for name, data in (('gzip', b'\x1f\x8b\x08'), ('xz', b'\xfd7zXZ\0'), ('zstd', b'\x28\xb5\x2f\xfd'),
                         ('bzip2', b'BZh91AY&SY'), ('lz4', b'\x04\x22\x4d\x18'))
      for declared in ('raw', 'qcow2', 'iso', 'ami')),
    ('vmdk as raw', vmdk(), 'raw', 'is vmdk'),
    ('vmdk flat', vmdk(create_type='monolithicFlat', extents='RW 2048 FLAT "/etc/passwd" 0'), 'vmdk', 'neither'),
    ('vmdk with a flat extent', vmdk(extents='RW 2048 FLAT "disk-flat.vmdk" 0'), 'vmdk', 'extents'),
    ('vmdk with two extents',
     vmdk(extents='RW 1024 SPARSE "a.vmdk"\nRW 1024 SPARSE "b.vmdk"'), 'vmdk', 'extents'),
    ('vmdk with a path', vmdk(extents='RW 2048 SPARSE "../../etc/passwd"'), 'vmdk', 'path'),
    ('vmdk with two types', vmdk(more='createType="monolithicFlat"\n'), 'vmdk', 'monolithicSparse'),
    ('vmdk with a type in a comment', vmdk(more='# createType="monolithicFlat"\n'), 'vmdk', 'more than one type'),
    ('vmdk with a parent', vmdk(more='parentFileNameHint="/etc/passwd"\n'), 'vmdk', 'parent'),
    ('vmdk without capacity', vmdk(capacity=0), 'vmdk', 'descriptor'),
    ('vmdk without descriptor', vmdk(place=0, length=0), 'vmdk', 'no descriptor'),
    ('vmdk whose footer is missing', vmdk(directory_end=True), 'vmdk', 'footer'),
    ('vmdk with a descriptor out of reach', vmdk(place=2 ** 50), 'vmdk', 'cut off'),
    ('vmdk with an endless descriptor', vmdk(length=2 ** 40), 'vmdk', 'larger'),
    ('vmdk descriptor', vmdk_descriptor(), 'vmdk', 'vmdk-descriptor'),
    ('vmdk descriptor as raw', vmdk_descriptor(), 'raw', 'vmdk-descriptor'),
    ('vmdk descriptor in disguise', b'# hello\n\nversion=1\n' + vmdk_descriptor()[22:], 'raw', 'vmdk-descriptor'),
    ('vmdk COWD', b'COWD' + bytes(4096), 'vmdk', 'cowd'),
    ('vhd differencing', vhd_footer(4) + bytes(4096) + vhd_footer(4), 'vhd', 'parent'),
    ('vhd without footer', vhd_footer(3) + bytes(4096), 'vhd', 'footer'),
    ('vhd with two stories', vhd_footer(3) + bytes(4096) + vhd_footer(4), 'vhd', 'agree'),
    ('vhd fixed as raw', mbr() + vhd_footer(2), 'raw', 'is vhd'),
    ('vhdx with a parent', vhdx(has_parent=True), 'vhdx', 'parent'),
    ('vhdx with a parent locator', vhdx(parent_item=True), 'vhdx', 'parent'),
    ('vhdx with a log', vhdx(log=True), 'vhdx', 'log'),
    ('vhdx whose metadata lies in its header', vhdx()[:64 * 1024], 'vhdx', 'cut off'),
    ('vdi differencing', vdi(kind=4), 'vdi', 'parent'),
    ('vdi with a parent', vdi(parent=b'\1' * 16), 'vdi', 'parent'),
    ('qed', qed(), 'raw', 'is qed'),
    ('qed with a backing file', qed(1), 'qcow2', 'is qed'),
    ('iso and qcow2', iso(qcow2()[:0x8000]), 'iso', 'more than one'),
    ('iso and qcow2 as qcow2', iso(qcow2()[:0x8000]), 'qcow2', 'more than one'),
    ('iso and vmdk', iso(vmdk()[:0x8000]), 'iso', 'more than one'),
    ('iso as raw', iso(), 'raw', 'is iso'),
    ('mbr and qcow2', mbr(qcow2()[:400]), 'qcow2', 'more than one'),
    ('vhd fixed around qcow2', qcow2() + vhd_footer(2), 'vhd', 'more than one'),
    ('parallels', b'WithoutFreeSpace' + bytes(4096), 'raw', 'parallels'),
    ('bochs', b'Bochs Virtual HD Image' + bytes(4096), 'raw', 'bochs'),
    ('dmg', bytes(4096) + b'koly' + bytes(508), 'raw', 'dmg'),
    ('qcow2 of an exabyte', qcow2(size=2 ** 60), 'qcow2', 'virtual size'),
    ('vmdk of a zettabyte', vmdk(capacity=2 ** 62), 'vmdk', 'virtual size'),
)

# (name, bytes, declared format, format found, virtual size)
HARMLESS = (
    ('raw', RAW, 'raw', 'raw', 4096),
    ('mbr', mbr(), 'raw', 'mbr', MIB),
    ('gpt', gpt(), 'raw', 'gpt', MIB),
    ('luks', LUKS, 'raw', 'luks', MIB),
    ('kernel', kernel(), 'aki', 'kernel', 32 * 1024),
    ('ramdisk', RAMDISK, 'ari', 'gzip', 4096),
    ('ami', mbr(), 'ami', 'mbr', MIB),
    ('qcow2 v2', qcow2(version=2), 'qcow2', 'qcow2', MIB),
    ('qcow2 v3', qcow2(), 'qcow2', 'qcow2', MIB),
    ('qcow2 v3 dirty, with feature names', qcow2(features=1, extensions=[(0x6803f857, b'x' * 384)]), 'qcow2', 'qcow2',
     MIB),
    ('vmdk', vmdk(), 'vmdk', 'vmdk', MIB),
    ('vhd fixed', mbr() + vhd_footer(2), 'vhd', 'vhd', MIB),
    ('vhd dynamic', vhd_footer(3) + bytes(4096) + vhd_footer(3), 'vhd', 'vhd', MIB),
    ('vhdx', vhdx(), 'vhdx', 'vhdx', MIB),
    ('vdi', vdi(), 'vdi', 'vdi', MIB),
    ('iso', iso(), 'iso', 'iso', 64 * 1024),
    ('hybrid iso', iso(mbr()[:512]), 'iso', 'iso', 64 * 1024),
)
