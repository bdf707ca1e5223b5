"""Where guests' memory comes from."""
from xml.etree import ElementTree as etree

import pytest

pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova import conf as configuration
from nova import exception
from nova.hardware import host as hardware_host
from nova.tests.support import libvirt_xml as guests
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain import memory
from nova.virt.libvirt.features import live_migration


def backing(**values):
    return etree.fromstring(xml.domain(guests.guest(**values))).find('memoryBacking')


def test_memory_in_files_is_there_before_the_guest_runs():
    found = backing(memory_source=memory.FILE)
    assert [child.tag for child in found] == ['source', 'access', 'allocation', 'discard']
    assert found.find('allocation').get('mode') == 'immediate' and found.find('access').get('mode') == 'shared'


def test_memfd_is_shared_with_whom_a_guest_needs_alone():
    assert [child.tag for child in backing(memory_source=memory.MEMFD)] == ['source']
    share = {'share_id': 'x', 'tag': 'x', 'directory': '/d', 'program': '/p'}
    assert backing(memory_source=memory.MEMFD, shares=[share]).find('access').get('mode') == 'shared'
    assert backing(memory_source=memory.FILE, shares=[share]).find('source').get('type') == 'file'
    assert backing() is None


def test_files_are_not_of_large_pages():
    root = etree.fromstring('<domain><memoryBacking><hugepages/></memoryBacking></domain>')
    with pytest.raises(exception.VirtError, match='mem_page_size'):
        memory.backing(root, memory.FILE)
    memory.backing(root, memory.MEMFD)
    assert root.find('memoryBacking/source').get('type') == 'memfd'


@pytest.mark.parametrize('options, source', [
    ({}, 'anonymous'), ({'libvirt__memory_source': 'memfd'}, 'memfd'), ({'libvirt__file_backed_memory': 64}, 'file'),
    ({'libvirt__file_backed_memory': 64, 'libvirt__memory_source': 'memfd'}, None),
    ({'libvirt__file_backed_memory': 64, 'ram_allocation_ratio': 1.5}, None),
    ({'libvirt__file_backed_memory': 64, 'reserved_huge_pages': ['node:0,size:2048,count:1']}, None)])
def test_options_that_contradict_each_other_stop_the_start(options, source):
    conf = configuration.new(files=[], **options)
    if source is None:
        with pytest.raises(exception.VirtError, match='file_backed_memory'):
            memory.source_of(conf)
    else:
        assert memory.source_of(conf) == source


def test_host_with_file_backed_memory_offers_no_large_pages():
    host = hardware_host.of_cells(['2:1024:64'])
    assert len(host.cells[0].mempages) == 2
    assert [pages.size_kb for pages in hardware_host.with_pages(host, frozenset()).cells[0].mempages] == [4]


@pytest.mark.parametrize('here, there, fine', [
    ('file', 'file', True), ('anonymous', 'memfd', False), ('file', 'anonymous', False), ('memfd', 'file', False)])
def test_memory_goes_to_its_like(here, there, fine):
    if fine:
        live_migration._check_memory(guests.guest(memory_source=here), there)
    else:
        with pytest.raises(exception.MigrationPreCheckError, match=here):
            live_migration._check_memory(guests.guest(memory_source=here), there)
