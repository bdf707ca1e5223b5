"""The inspector against images that read other files, images that claim to be another format, and noise."""
import contextlib
import random
import time

import hypothesis
import pytest
from hypothesis import strategies as st

from nova import exception
from nova.image import inspector
from nova.tests import image_corpus as corpus

TIB = 2 ** 40
needs_qemu = pytest.mark.skipif(not corpus.qemu_img, reason='qemu-img is not installed')


def streamed(data, size):
    """The report of data that arrives in chunks of ``size`` bytes."""
    one = inspector.Inspector()
    for start in range(0, len(data), size):
        one.feed(data[start:start + size])
    return one.finish()


@pytest.mark.parametrize('name, data, declared, reason', corpus.DANGEROUS, ids=[row[0] for row in corpus.DANGEROUS])
def test_dangerous_images_are_refused(name, data, declared, reason, tmp_path):
    path = tmp_path / 'image'
    path.write_bytes(data)
    for report in (streamed(data, 256 * 1024), streamed(data, 777), inspector.inspect_file(path)):
        with pytest.raises(exception.ImageUnacceptable) as caught:
            inspector.verify(report, declared, TIB, 'some-id')
        assert reason in caught.value.message


@pytest.mark.parametrize('name, data, declared, found, size', corpus.HARMLESS, ids=[row[0] for row in corpus.HARMLESS])
def test_harmless_images_pass(name, data, declared, found, size, tmp_path):
    path = tmp_path / 'image'
    path.write_bytes(data)
    for report in (streamed(data, 256 * 1024), streamed(data, 777), inspector.inspect_file(path)):
        inspector.verify(report, declared, TIB)
        assert (report.format, report.virtual_size, report.size) == (found, size, len(data))


@pytest.mark.parametrize('name, data, declared, found, size', corpus.HARMLESS, ids=[row[0] for row in corpus.HARMLESS])
def test_no_image_passes_as_another_family(name, data, declared, found, size):
    report = streamed(data, 65536)
    for other, accepted in inspector.ACCEPTS.items():
        if found not in accepted:
            with pytest.raises(exception.ImageUnacceptable):
                inspector.verify(report, other, TIB)


def test_unknown_disk_format_is_refused():
    with pytest.raises(exception.ImageUnacceptable, match='not supported'):
        inspector.verify(streamed(corpus.RAW, 100), 'qed', TIB)


@needs_qemu
@pytest.mark.parametrize('fmt, options, declared', [
    ('qcow2', None, 'qcow2'), ('qcow2', 'compat=0.10', 'qcow2'), ('qcow2', 'compat=1.1,lazy_refcounts=on', 'qcow2'),
    ('qcow2', 'cluster_size=512', 'qcow2'), ('qcow2', 'cluster_size=2M,compression_type=zstd', 'qcow2'),
    ('qcow2', 'extended_l2=on', 'qcow2'), ('vmdk', None, 'vmdk'), ('vmdk', 'subformat=streamOptimized', 'vmdk'),
    ('vpc', None, 'vhd'), ('vpc', 'subformat=fixed', 'vhd'), ('vhdx', None, 'vhdx'), ('vdi', None, 'vdi'),
    ('vdi', 'static=on', 'vdi'), ('raw', None, 'raw')])
def test_images_written_by_qemu_img_pass_inspection(fmt, options, declared, tmp_path):
    source = tmp_path / 'source'
    source.write_bytes(random.Random(1).randbytes(corpus.MIB) + bytes(4 * corpus.MIB))
    path = corpus.convert(source, tmp_path / 'image', fmt, options)
    report = inspector.inspect_file(path)
    inspector.verify(report, declared, TIB)
    assert streamed(path.read_bytes(), 100000) == report
    assert 5 * corpus.MIB <= report.virtual_size < 6 * corpus.MIB      # VHD rounds up to whole cylinders


@needs_qemu
@pytest.mark.parametrize('fmt, options, backing, declared', [
    ('qcow2', None, True, 'qcow2'), ('qcow2', 'compat=0.10', True, 'qcow2'),
    ('qcow2', 'data_file={dir}/data,data_file_raw=on', False, 'qcow2'), ('vmdk', None, True, 'vmdk'),
    ('vmdk', 'subformat=monolithicFlat', False, 'vmdk'), ('vmdk', 'subformat=twoGbMaxExtentSparse', False, 'vmdk'),
    ('qed', None, True, 'qcow2'), ('luks', None, False, 'qcow2')])
def test_images_that_reference_other_files_are_refused(fmt, options, backing, declared, tmp_path):
    base = tmp_path / 'base'
    base.write_bytes(bytes(4 * corpus.MIB))
    if fmt == 'luks':
        base.write_bytes(corpus.LUKS)
        path = base
    elif fmt == 'vmdk' and backing:
        corpus.make(tmp_path / 'parent', 'vmdk')
        path = tmp_path / 'image'
        corpus.subprocess.run([corpus.qemu_img, 'create', '-q', '-f', 'vmdk', '-b', str(tmp_path / 'parent'), '-F',
                               'vmdk', str(path)], check=True, timeout=60)
    else:
        path = corpus.make(tmp_path / 'image', fmt, options=options and options.format(dir=tmp_path),
                           backing=base if backing else None)
    with pytest.raises(exception.ImageUnacceptable):
        inspector.verify(inspector.inspect_file(path), declared, TIB)


# ---- any input: a report or a refusal, in bounded time and memory ------------------

SEEDS = [row[1] for row in (*corpus.DANGEROUS, *corpus.HARMLESS)]


def _survives(data, chunk):
    begun = time.thread_time()
    report = streamed(data, chunk)
    for declared in inspector.ACCEPTS:
        with contextlib.suppress(exception.ImageUnacceptable):
            inspector.verify(report, declared, TIB)
    assert time.thread_time() - begun < 2


@hypothesis.settings(max_examples=300, deadline=None,
                     suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large])
@hypothesis.given(st.sampled_from(range(len(SEEDS))),
                  st.lists(st.tuples(st.integers(0, 1200), st.binary(min_size=1, max_size=12)), max_size=12),
                  st.sampled_from([333, 65536, 1 << 20]))
def test_corrupted_image_headers_are_refused_or_read(seed, changes, chunk):
    data = bytearray(SEEDS[seed])
    for offset, piece in changes:
        data[offset:offset + len(piece)] = piece
    _survives(bytes(data), chunk if len(data) < 2 ** 20 else 1 << 20)


@hypothesis.settings(max_examples=200, deadline=None)
@hypothesis.given(st.sampled_from([row[2] for row in inspector.SIGNATURES if row[1] == 0] + [b'QFI\xfb\0\0\0\3', b'']),
                  st.binary(max_size=4096))
def test_noise_after_an_image_signature_is_refused_or_read(magic, noise):
    _survives(magic + noise, 1000)


def test_corrupted_vhdx_metadata_is_refused_or_read():
    rng = random.Random(7)
    good = corpus.vhdx(metadata_at=corpus.MIB)
    for _round in range(60):
        data = bytearray(good)
        for _change in range(6):
            place = rng.choice([0x30000, 0x40000, corpus.MIB, corpus.MIB + 0x10000]) + rng.randrange(100)
            data[place:place + 4] = rng.randbytes(4)
        _survives(bytes(data), 1 << 20)


def test_truncated_image_headers_are_refused_or_read():
    for data in (corpus.qcow2(backing=b'/etc/passwd'), corpus.vmdk(), corpus.vdi(), corpus.qed(),
                 corpus.vhd_footer(3) + corpus.vhd_footer(3)):
        for length in [*range(0, 1100, 7), 20000, 70000]:
            _survives(data[:length], 1 << 20)


def test_memory_and_time_are_bounded():
    one = inspector.Inspector()
    started = time.thread_time()
    one.feed(corpus.vmdk(place=200, length=2048)[:65536])
    chunk = bytes(2 ** 20)
    for _count in range(256):
        one.feed(chunk)
    assert len(one._head) == inspector.HEAD and len(one._tail) == inspector.TAIL
    assert one._window is None
    one.finish()
    assert time.thread_time() - started < 5


def test_a_descriptor_of_only_comments_takes_no_time():
    started = time.thread_time()
    _survives(b'# \t \r\n' * 50000, 65536)
    _survives(b' ' * 300000, 65536)
    assert time.thread_time() - started < 2


@pytest.mark.parametrize('disk_format, reason', [('raw', 'no data'), ('qcow2', 'its data is raw')])
def test_a_disk_has_data(disk_format, reason):
    report = inspector.Inspector().finish()
    with pytest.raises(exception.ImageUnacceptable, match=reason):
        inspector.verify(report, disk_format)


def test_an_upload_of_no_data_fits_raw_formats_only():
    report = inspector.Inspector().finish()
    for disk_format in ('raw', 'ami', 'aki', 'ari'):
        inspector.verify(report, disk_format, may_be_empty=True)
    for disk_format in ('qcow2', 'iso', 'vmdk'):
        with pytest.raises(exception.ImageUnacceptable):
            inspector.verify(report, disk_format, may_be_empty=True)
