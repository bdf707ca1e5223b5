"""Disk images and their properties; what the inspector lets through is read again here, by other means."""
import random
import re
import struct

import orjson

from nova import exception
from nova.image import inspector
from nova.image import resources
from nova.image.embedded import search
from nova.image.rest import patch
from nova.tests import image_corpus as corpus
from nova.tests.fuzz import mutations
from nova.tests.fuzz.engine import REFUSALS
from nova.tests.fuzz.engine import Target
from nova.web import params

FORMATS = tuple(sorted(inspector.ACCEPTS))
BIGGEST = 1 << 50
_FIELDS = mutations.record(
    # qcow2: version, backing file, cluster bits, size, encryption, features, length of the header, extensions
    (4, '>I'), (8, '>Q'), (16, '>I'), (20, '>I'), (24, '>Q'), (32, '>I'), (72, '>Q'), (100, '>I'), (104, '>I'),
    (108, '>I'), (112, '>I'), (116, '>I'),
    # VMDK: version, flags, capacity, where its descriptor is, its directory; VHD: size and kind
    (4, '<I'), (8, '<I'), (12, '<Q'), (28, '<Q'), (36, '<Q'), (56, '<Q'), (48, '>Q'), (60, '>I'),
    # VDI: kind, size, parent; VHDX: logs, regions and metadata
    (76, '<I'), (368, '<Q'), (0x1a8, '<I'), (0x1b8, '<I'), (0x10030, '<Q'), (0x30008, '<I'), (0x30020, '<Q'),
    (0x30028, '<I'), (0x40008, '<I'), (0x40020, '<Q'), (0x5000a, '<H'), (0x50030, '<I'), (0x60004, '<I'))
_LINES = (b'createType="monolithicFlat"', b'createType="monolithicSparse"', b'parentFileNameHint="/etc/passwd"',
          b'RW 1 FLAT "/etc/passwd" 0', b'RW 1 SPARSE "a"', b'parentCID=00000000', b'\0', b'CREATETYPE = "custom"',
          b'\r', b'createType="streamOptimized"', b'RW 1 SPARSE "../x"', b'# createType="vmfs"')
_MAGIC = (b'QFI\xfb', b'KDMV', b'conectix', b'CD001', b'QED\0', b'LUKS\xba\xbe', b'vhdxfile',
          b'# Disk DescriptorFile\n')


def image_changed(rng: random.Random, data: bytes) -> bytes:
    """A field of a header, a line of a descriptor, an extension, another format's signature; the same format's rest."""
    kind = rng.randrange(8)
    if kind < 4:
        return data[:1] + _FIELDS(rng, data[1:])
    if kind == 4 and b'\n' in data[:4096]:
        place = data.find(b'\n', rng.randrange(1024)) + 1
        line = rng.choice(_LINES) + b'\n'
        return data[:place] + line + data[place + rng.choice((0, len(line))):]
    if kind == 5:
        place = 1 + rng.choice((0, 0, 0, 64, 0x8001, max(0, len(data) - 513)))
        word = rng.choice(_MAGIC)
        return data[:place] + word + data[place + len(word):]
    if kind == 6:
        extension = struct.pack('>II', rng.choice((0, 7, 0x44415441, 0x0537be77, 0x6803f857)),
                                rng.choice((0, 1, 8, 11, 4096))) + b'/etc/pw\0'
        place = 1 + rng.choice((72, 104, 112, 128))
        return data[:place] + extension + data[place + len(extension):]
    return bytes([rng.randrange(256)]) + data[1:]


def make_images(directory):
    path = f'{directory}/image'

    def run(data: bytes) -> None:
        declared, content = FORMATS[data[0] % len(FORMATS)] if data else 'raw', data[1:]
        report = _fed([content])
        rng = random.Random(len(content))
        cuts = sorted(rng.randrange(len(content) + 1) for _ in range(9))
        assert report == _fed([content[a:b] for a, b in zip([0, *cuts], [*cuts, len(content)])]), 'in other pieces'
        with open(path, 'wb') as file:
            file.write(content)
        assert report == inspector.inspect_file(path), 'the file is not what came'
        inspector.verify(report, declared, BIGGEST)
        why = outside(declared, content)
        assert why is None, f'{declared} was let through: {why}'
    return run


def _fed(pieces):
    made = inspector.Inspector()
    for piece in pieces:
        made.feed(piece)
    return made.finish()


def outside(declared: str, data: bytes) -> str | None:
    """What in an image refers to another file, as the description of its format has it; None when nothing does.

    Written without a look at the inspector's parsers: by offsets, on the whole data.
    """
    if declared in ('raw', 'ami', 'aki', 'ari', 'iso', inspector.ARCHIVE):
        containers = b'QFI\xfb', b'KDMV', b'COWD', b'QED\0', b'vhdxfile'
        head = next((magic for magic in containers if data.startswith(magic)), None)
        return head and f'it begins with {head!r}'
    return _REFERENCES[declared](data)


def _qcow2(data):
    version, backing, length = int.from_bytes(data[4:8], 'big'), data[8:16], data[16:20]
    if any(backing) or any(length):
        return 'a backing file'
    if version == 3 and data[79] & 4:                  # big-endian: bit 2 is in the last byte
        return 'an external data file by its feature bit'
    place = int.from_bytes(data[100:104], 'big') if version == 3 else 72
    while place + 8 <= len(data) and place < 1 << int.from_bytes(data[20:24], 'big'):
        kind, size = data[place:place + 4], int.from_bytes(data[place + 4:place + 8], 'big')
        if kind == b'\0\0\0\0':
            break
        if kind == b'DATA':
            return 'an external data file by its extension'
        place += 8 + size + -size % 8
    return None


def _vmdk(data):
    place, length = struct.unpack_from('<QQ', data, 28)
    text = data[place * 512:(place + max(length, 20)) * 512].split(b'\0')[0]
    types = re.findall(rb'(?i)createtype[ \t]*=[ \t]*"?([^"\r\n]*)', text)
    if {found.strip().lower() for found in types} - {b'monolithicsparse', b'streamoptimized'} or len(types) != 1:
        return f'types {types}'
    extents = [line for line in text.split(b'\n') if re.match(rb'(?i)\s*(rw|rdonly|noaccess)\s', line)]
    if len(extents) != 1 or b'/' in extents[0] or b'\\' in extents[0] or b'sparse' not in extents[0].lower():
        return f'extents {extents}'
    return 'a parent' if b'parentfilenamehint' in text.lower() else None


def _vhd(data):
    ends = [data[:512], data[-512:], data[-511:]]
    kinds = {int.from_bytes(end[60:64], 'big') for end in ends if end.startswith(b'conectix')}
    return None if kinds and kinds <= {2, 3} else f'kinds {kinds}'


def _vhdx(data):
    return 'a parent locator' if bytes.fromhex('2d5fd3a80bb34d45abf7d3d84834ab0c') in data[0x50000:0x51000] else None


def _vdi(data):
    return None if data[76:80] in (b'\1\0\0\0', b'\2\0\0\0') and not any(data[0x1a8:0x1c8]) else 'a parent'


_REFERENCES = {'qcow2': _qcow2, 'vmdk': _vmdk, 'vhd': _vhd, 'vhdx': _vhdx, 'vdi': _vdi}


def _seeds():
    rows = [(data, declared) for _name, data, declared, *_ in corpus.HARMLESS + corpus.DANGEROUS if len(data) < 1 << 19]
    small = corpus.vhdx(metadata_at=0x50000)[:0x61000]
    return tuple(bytes([FORMATS.index(declared)]) + data[:400 << 10] for data, declared in [*rows, (small, 'vhdx'), (
        corpus.vdi()[:4096], 'vdi')])


# ---- what is said of images -------------------------------------------------------

def make_image_search(_directory):
    def run(data: bytes) -> None:
        found = search.parse(params.parse_query(data.decode('latin-1')))
        assert 0 <= found.limit <= search.MAX_LIMIT and found.visibility in (None, *search.CHOICES['visibility'])
        assert {column for column, _ in found.sort} <= set(search.SORT_KEYS)
        assert all(0 <= number <= search.BIGGEST for column, _op, number in found.compare
                   if column not in ('created_at', 'updated_at'))
    return run


def make_patches(_directory):
    def run(data: bytes) -> None:
        try:
            document = orjson.loads(data)
        except ValueError:
            raise exception.BadRequest('It is no JSON.') from None
        for media_type in patch.TYPES:
            try:
                values, properties, _tags = patch.change(patch.parse(document, media_type))(
                    {'properties': {'own': '1'}, 'tags': ['a']})
            except REFUSALS:
                continue
            assert all(resources.FIELDS[name].write == 'create update' for name in values)
            assert not set(properties) & (set(resources.FIELDS) | resources.RESERVED)
    return run


TARGETS = (
    Target('images', make_images, _seeds(), mutate=image_changed, mib=16),
    Target('image_search', make_image_search, (
        b'limit=5&marker=x&sort=name:asc,size:desc&name=in:a,"b,c"', b'sort_key=name&sort_dir=asc&visibility=all',
        b'created_at=gt:2026-01-01T00:00:00Z&size_min=1&tag=x&tag=y&os_hidden=true&own=1',
        b'updated_at=lte:2026-01-01T00:00:00%2B23:59&member_status=all&min_ram=4&protected=False')),
    Target('patches', make_patches, (
        b'[{"op":"replace","path":"/name","value":"x"},{"op":"add","path":"/own~1er","value":"1"}]',
        b'[{"replace":"/visibility","value":"public"},{"remove":"/own"},{"add":"/tags","value":["a"]}]',
        b'[{"op":"remove","path":"/own"},{"op":"add","path":"/min_disk","value":1}]'), mutate=mutations.document),
)
