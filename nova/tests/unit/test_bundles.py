"""Bundled images, made as euca-bundle-image makes them: with tar, gzip and openssl."""
import gzip
import hashlib
import io
import os
import random
import subprocess
import tarfile

import pytest

from nova import exception
from nova.cert import authorities
from nova.cert import signing
from nova.ec2.bundles import archives
from nova.ec2.bundles import bundles
from nova.ec2.bundles import manifests
from nova.tests.support import bundles as shared_bundles
from nova.tests.support.bundles import Bundle
from nova.tests.support.bundles import IV
from nova.tests.support.bundles import KEY
from nova.tests.support.bundles import LIMIT
from nova.tests.support.bundles import signed_part

pytestmark = shared_bundles.pytestmark


PROJECT = 'a' * 32
def tarred(directory, *options):
    return subprocess.run(['tar', '-c', '-h', *options, '-C', directory, 'disk.img'], capture_output=True,
                          check=True).stdout


@pytest.fixture(scope='module')
def disk(tmp_path_factory):
    """(directory, bytes of disk.img in it): noise with holes between."""
    directory = tmp_path_factory.mktemp('disk')
    noise = random.Random(1)
    with open(directory / 'disk.img', 'wb') as file:
        for place in range(40):
            file.seek(place * 65536)
            file.write(noise.randbytes(8192))
        file.truncate(40 * 65536 + 100)
    return directory, (directory / 'disk.img').read_bytes()


@pytest.mark.parametrize('options', [('-S',), (), ('--format=ustar',), ('--format=posix',), ('--format=gnu', '-S'),
                                     ('-S', '--owner=0', '--group=0')])
def test_bundled_image_is_restored(disk, options):
    directory, data = disk
    archive = tarred(directory, *options)
    assert Bundle(archive, len(data)).image() == data
    if '-S' in options and os.stat(directory / 'disk.img').st_blocks * 512 < len(data):
        assert len(archive) < len(data)                             # the holes are holes, in more than one block


def test_bundles_support_long_names_and_small_images(tmp_path):
    for kind in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode='w', format=kind) as archive:
            member = tarfile.TarInfo('ü' * 150)
            member.size, member.pax_headers = 3, {'size': '3'}
            archive.addfile(member, io.BytesIO(b'abc'))
        assert Bundle(made.getvalue(), 3).image() == b'abc'


def test_bundle_encrypted_for_the_cloud_certificate_is_unpacked(disk, tmp_path, monkeypatch):
    """All of it: the key and the vector are encrypted by openssl for the certificate of the cloud."""
    monkeypatch.setattr(signing, 'AUTHORITY_BITS', 2048)
    found = authorities.Authorities(tmp_path / 'CA', tmp_path / 'keys', True)
    (tmp_path / 'cloud.pem').write_text(found.trusted(PROJECT))
    words = ['openssl', 'pkeyutl', '-encrypt', '-certin', '-inkey', tmp_path / 'cloud.pem']
    encrypted = [subprocess.run(words, input=text.encode(), capture_output=True, check=True).stdout.hex()
                 for text in (KEY, IV)]
    bundle = Bundle(tarred(disk[0], '-S'), len(disk[1]), encrypted=encrypted, kernel='<kernel_id>aki-1</kernel_id>')
    manifest = manifests.parse(bundle.xml())
    assert (manifest.name, manifest.architecture, manifest.kernel_id, manifest.ramdisk_id, manifest.image_type) == (
        'disk.img', 'x86_64', 'aki-1', None, 'machine')
    key, iv = (found.decrypt(PROJECT, text) for text in (manifest.encrypted_key, manifest.encrypted_iv))
    assert b''.join(bundles.unbundle(manifest, key, iv, bundle.open, LIMIT)) == disk[1]


# ---- what strangers try ----------------------------------------------------------

def _other(data):
    return bytes([data[0] ^ 1]) + data[1:]


SPOILT = {
    'another key': (lambda b: setattr(b, 'key', 'a' * 32), 'another key'),
    'no key': (lambda b: setattr(b, 'key', 'x' * 32), 'not an AES-128 key'),
    'short key': (lambda b: setattr(b, 'iv', '00'), 'not an AES-128 key'),
    'a part that was changed': (lambda b: b.parts.update({'disk.img.part.1': _other(b.parts['disk.img.part.1'])}),
                                'digest of disk.img.part.1|another key'),
    'a digest that was changed': (lambda b: b.digests.update({'disk.img.part.1': '0' * 40}), 'digest of disk.img.part'),
    'the digest of the image': (lambda b: setattr(b, 'digest', '0' * 40), 'digest of the image'),
    'a part less': (lambda b: b.digests.popitem(), 'smaller than|another key|truncated'),
    'a larger part': (lambda b: setattr(b, 'bundled', b.bundled - 1), 'larger than stated'),
    'a smaller part': (lambda b: setattr(b, 'bundled', b.bundled + 1), 'smaller than stated'),
    'another size': (lambda b: setattr(b, 'size', b.size + 1), 'differs from the manifest'),
    'too large': (lambda b: setattr(b, 'size', LIMIT + 1), 'the limit is'),
}


@pytest.mark.parametrize('name', SPOILT)
def test_damaged_bundle_is_refused(disk, name):
    spoil, sentence = SPOILT[name]
    bundle = Bundle(tarred(disk[0]), len(disk[1]))
    spoil(bundle)
    with pytest.raises(exception.InvalidInput, match=sentence):
        bundle.image()


def _archive(*members, kind=tarfile.GNU_FORMAT):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode='w', format=kind) as archive:
        for member, data in members:
            archive.addfile(member, io.BytesIO(data))
    return made.getvalue()


def _member(name='disk.img', kind=tarfile.REGTYPE, size=3):
    made = tarfile.TarInfo(name)
    made.type, made.size = kind, size
    return made


def _header(kind, size, sparse=b''):
    """A header whose sums are right, with a body that is announced and not there."""
    made = bytearray(tarfile.TarInfo('x').tobuf(tarfile.GNU_FORMAT))
    made[124:136] = b'\x80' + size.to_bytes(11, 'big')
    made[156:157] = kind
    made[386:386 + len(sparse)] = sparse
    made[148:156] = b' ' * 8
    made[148:156] = b'%06o\0 ' % sum(made)
    return bytes(made)


def _sparse(*pairs, size=3, more=0):
    return b''.join(b'%011o\0' % number for pair in pairs for number in pair).ljust(96, b'\0') + bytes([more]) + (
        b'%011o\0' % size)


ARCHIVES = {
    'nothing': (b'', 'truncated'), 'no archive': (b'x' * 2000, 'not an archive'),
    'zeros': (bytes(10240), 'not an archive'),
    'a link': (_archive((_member(kind=tarfile.SYMTYPE, size=0), b'')), 'not a file'),
    'a directory': (_archive((_member(kind=tarfile.DIRTYPE, size=0), b'')), 'not a file'),
    'two files': (_archive((_member(), b'abc'), (_member('b'), b'abc')), 'more than one'),
    'cut off': (_archive((_member(), b'abc'))[:514], 'truncated'),
    'endless zeros': (_archive((_member(), b'abc')) + bytes(archives.MAX_PADDING), 'more than one'),
    'a long name of 8 GiB': (_header(tarfile.GNUTYPE_LONGNAME, 8 << 30), 'headers are too long'),
    'records of 8 GiB': (_header(tarfile.XHDTYPE, 8 << 30), 'headers are too long'),
    'headers without an end': (_header(tarfile.XGLTYPE, 0) * 20, 'too many headers'),
    'records that are none': (_header(tarfile.XHDTYPE, 512) + b'9999999999 size=3\n'.ljust(512), 'malformed'),
    'records of nothing': (_header(tarfile.XHDTYPE, 512) + b'0 '.ljust(512), 'malformed'),
    'holes of another format': (_header(tarfile.XHDTYPE, 22) + b'22 GNU.sparse.major=1\n'.ljust(512), 'sparse'),
    'holes beyond the end': (_header(b'S', 3, _sparse((0, 3), (100, 1))) + bytes(1024), 'sparse'),
    'holes that go back': (_header(b'S', 2, _sparse((1, 1), (0, 1))) + bytes(1024), 'sparse'),
    'holes of more than there is': (_header(b'S', 1, _sparse((0, 3))) + bytes(1024), 'sparse'),
    'holes of less than there is': (_header(b'S', 600, _sparse((0, 3))) + bytes(1024), 'sparse'),
    'a file with another size': (_header(b'S', 3, _sparse((0, 3), size=1 << 32)) + bytes(1024), 'differs from the'),
    'numbers that are none': (_header(b'S', 3, _sparse((0, 3), more=1)) + b'9' * 504 + bytes(8), 'numbers'),
}


@pytest.mark.parametrize('name', ARCHIVES)
def test_invalid_tar_archive_is_refused(name):
    data, sentence = ARCHIVES[name]
    with pytest.raises(exception.InvalidInput, match=sentence):
        Bundle(data, 3).image()


def test_sparse_map_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(archives, 'MAX_PIECES', 100)
    endless = b'\0' * 504 + b'\1' + bytes(7)
    full = (b'%011o\0' % 0) * 42 + b'\1' + bytes(7)
    with pytest.raises(exception.InvalidInput, match='sparse map is too large'):
        Bundle(_header(b'S', 3, _sparse((0, 3), more=1)) + full * 1000, 3).image()
    with pytest.raises(exception.InvalidInput, match='truncated'):
        Bundle(_header(b'S', 3, _sparse((0, 3), more=1)) + endless * 10, 3).image()


def test_data_after_the_archive_is_refused():
    bundle = Bundle(_archive((_member(), b'abc')), 3)
    twice = Bundle.__new__(Bundle)
    twice.__dict__.update(bundle.__dict__)
    packed = gzip.compress(_archive((_member(), b'abc')))
    for data in (packed + b'more', packed + packed, packed[:-4]):
        done = subprocess.run(['openssl', 'enc', '-e', '-aes-128-cbc', '-K', KEY, '-iv', IV], input=data,
                              capture_output=True, check=True).stdout
        twice.parts, twice.bundled = {'p': done}, len(done)
        twice.digests = {'p': hashlib.sha1(done).hexdigest()}
        with pytest.raises(exception.InvalidInput, match='data after the archive|truncated'):
            twice.image()


def test_a_small_bundle_does_not_become_a_large_one():
    """What is unpacked stops where the manifest's size ends: little is written of a bomb, and little is held."""
    bomb = _archive((_member(size=64 << 20), bytes(64 << 20)))
    bundle, written = Bundle(bomb, 3), []
    with pytest.raises(exception.InvalidInput, match='differs from the manifest'):
        written.extend(bundles.unbundle(manifests.parse(bundle.xml()), KEY, IV, bundle.open, LIMIT))
    assert not written and bundle.bundled < 1 << 20
    bundle = Bundle(bomb, 64 << 20)
    sizes = [len(piece) for piece in bundles.unbundle(manifests.parse(bundle.xml()), KEY, IV, bundle.open, LIMIT)]
    assert sum(sizes) == 64 << 20 and max(sizes) <= bundles.PIECE


def _replaced(before, after):
    return lambda text: text.replace(before, after, 1)


MANIFESTS = {
    'nothing': (lambda text: b'', 'not XML'), 'no XML': (lambda text: b'\xff' * 10, 'not XML'),
    'another root': (_replaced(b'<manifest>', b'<html>'), 'not XML'),
    'another document': (lambda text: b'<html/>', 'root'),
    'too long': (lambda text: text + b' ' * manifests.MAX_BYTES, 'bytes'),
    'an entity': (_replaced(b'<manifest>', b'<!DOCTYPE m [<!ENTITY a "b">]><manifest>'), 'document type'),
    'a file': (_replaced(b'<manifest>', b'<!DOCTYPE m SYSTEM "file:///etc/passwd"><manifest>'), 'document type'),
    'an encoding that is not': (_replaced(b'?>', b' encoding="nonsense"?>'), 'not XML'),
    'depth': (_replaced(b'<image>', b'<a>' * 20 + b'</a>' * 20 + b'<image>'), 'too many elements'),
    'elements': (_replaced(b'<image>', b'<a/>' * manifests.MAX_ELEMENTS + b'<image>'), 'too many elements'),
    'no name': (_replaced(b'<name>disk.img</name>', b''), 'image/name'),
    'a path': (_replaced(b'<filename>disk', b'<filename>../disk'), 'filename'),
    'dots': (_replaced(b'<filename>disk.img.part.0', b'<filename>..'), 'filename'),
    'a size of letters': (_replaced(b'<size>', b'<size>x'), 'not a number'),
    'a negative size': (_replaced(b'<size>', b'<size>-'), 'not a number'),
    'a size of other digits': (_replaced(b'<size>', '<size>٣'.encode()), 'not a number'),
    'a huge size': (_replaced(b'<size>', b'<size>' + b'9' * 18), 'not a number'),
    'more parts than there are': (_replaced(b'parts count="', b'parts count="1'), 'number of parts differs'),
    'no parts': (lambda text: text[:text.index(b'<parts')] + (
        b'<parts count="0"/></image><signature>00</signature></manifest>'), 'number of parts differs'),
    'the same index': (_replaced(b'index="1"', b'index="0"'), 'same index'),
    'an index too large': (_replaced(b'index="1"', b'index="100"'), 'index'),
    'another cipher': (_replaced(b'ec2_encrypted_key algorithm="AES-128-CBC"', b'ec2_encrypted_key algorithm="ROT13"'),
                       'algorithm'),
    'another digest': (_replaced(b'algorithm="SHA1"', b'algorithm="MD5"'), 'algorithm'),
    'a digest that is none': (_replaced(b'algorithm="SHA1">', b'algorithm="SHA1">zz'), 'digest'),
    'no signature': (_replaced(b'<signature>00</signature>', b''), 'signature'),
    'a signature that is none': (_replaced(b'<signature>00', b'<signature>xx'), 'signature'),
    'a second image behind the one that is signed': (
        _replaced(b'<signature>', b'<image><size>1</size></image><signature>'), 'two elements image'),
    'a second machine': (_replaced(b'<image>', b'<machine_configuration/><image>'), 'two elements machine'),
    'a long key': (_replaced(b'AES-128-CBC">', b'AES-128-CBC">' + b'0' * 2000), 'too long'),
}


@pytest.mark.parametrize('name', MANIFESTS)
def test_invalid_manifest_is_refused(disk, name):
    spoil, sentence = MANIFESTS[name]
    text = Bundle(tarred(disk[0]), len(disk[1])).xml()
    manifests.parse(text)
    spoilt = spoil(text)
    assert spoilt != text
    with pytest.raises(exception.InvalidInput, match=sentence):
        manifests.parse(spoilt)


def test_manifest_signature_covers_machine_and_image_elements_as_written(disk):
    """Whatever stands before it, and however its tags are written."""
    text = Bundle(tarred(disk[0]), len(disk[1])).xml()
    wanted = hashlib.sha1(signed_part(text)).digest()
    assert manifests.parse(text).signed == wanted
    for before, after in ((b'<bundler>', b'<!-- \xc3\xbc </image> --><bundler>'),
                          (b'</manifest>', b'<more/></manifest>')):
        assert manifests.parse(text.replace(before, after)).signed == wanted
    for before, after in ((b'</image>', b'</image >'), (b'<size>', b'<size> '), (b'x86_64', b'i386'),
                          (b'part.1</filename>', b'part.2</filename>')):
        assert manifests.parse(text.replace(before, after, 1)).signed != wanted


# ---- noise -----------------------------------------------------------------------

def _noisy(noise, data):
    """Some bytes of a text are others, or it is cut, or a piece of it comes twice."""
    made = bytearray(data)
    for _ in range(noise.randint(1, 4)):
        place = noise.randrange(len(made))
        kind = noise.random()
        if kind < 0.7:
            made[place] = noise.choice((0, 0x80, 0xff, ord('7'), ord('9'), ord(' '), noise.randrange(256)))
        elif kind < 0.85:
            made[place:place] = made[place:place + noise.randint(1, 40)]
        else:
            del made[place:place + noise.randint(1, 40)]
        if not made:
            break
    return bytes(made)


def _summed(archive):
    """The first header with the sum that it should have, so that noise in it is read."""
    made = bytearray(archive[:512])
    if len(made) < 512:
        return archive
    made[148:156] = b' ' * 8
    made[148:156] = b'%06o\0 ' % sum(made)
    return bytes(made) + archive[512:]


@pytest.mark.parametrize('seed', range(4))
def test_random_bundle_is_refused_or_read_completely(disk, seed):
    """Whatever comes is an image of the size that was said, or refused in a sentence; never another error."""
    noise = random.Random(seed)
    archive_of = [tarred(disk[0], option)[:3072] + bytes(1024) for option in ('-S', '--format=posix', '--format=ustar')]
    xml = Bundle(tarred(disk[0], '-S'), len(disk[1])).xml()
    refused = 0
    for _ in range(400):
        text, written = _noisy(noise, xml), []
        data = _noisy(noise, noise.choice(archive_of)[:noise.choice((600, 4096))])
        size = noise.choice((3, 600, len(disk[1])))
        try:
            manifests.parse(text)
        except exception.InvalidInput:
            refused += 1
        try:
            written.extend(archives.extract([_summed(data)], size))
            assert sum(map(len, written)) == size
        except exception.InvalidInput:
            refused += 1
            assert sum(map(len, written)) <= size
    assert refused > 100
