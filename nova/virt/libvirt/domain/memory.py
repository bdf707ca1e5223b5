"""Memory backing of guests, by the host's options: [libvirt] memory_source, file_backed_memory."""
from __future__ import annotations

from xml.etree import ElementTree as etree

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.virt.libvirt.domain.tree import add

ANONYMOUS, MEMFD, FILE = 'anonymous', 'memfd', 'file'
SHARED = 'shared'
TRAIT = 'COMPUTE_MEM_BACKING_FILE'


def source_of(conf: ConfigOpts) -> str:
    """Return the memory source of guests started now.

    :raises VirtError: the options contradict each other
    """
    options = conf.libvirt
    if not options.file_backed_memory:
        return str(options.memory_source)
    for wrong, sentence in (
            (options.memory_source != ANONYMOUS, 'memory_source says something else'),
            (conf.ram_allocation_ratio > 1, 'the files are made whole: ram_allocation_ratio must be 1 at most'),
            (conf.reserved_huge_pages, 'files are not of huge pages: reserved_huge_pages says nothing then')):
        if wrong:
            raise exception.VirtError(operation='use [libvirt] file_backed_memory', reason=sentence)
    return FILE


def backing(root: etree.Element, source: str) -> None:
    """Add the memory backing.

    :param source: ANONYMOUS, MEMFD or FILE
    :raises VirtError: the page size differs from that of files
    """
    if source == ANONYMOUS:
        return
    element = _element(root)
    if source == FILE and element.find('hugepages') is not None:
        raise exception.VirtError(operation='place the guest', reason='hw:mem_page_size asks for large pages, and '
                                  'guests of this host have memory in files ([libvirt] file_backed_memory)')
    add(element, 'source', type=source)
    if source == FILE:
        add(element, 'access', mode=SHARED)              # otherwise writes would stay in memory
        add(element, 'allocation', mode='immediate')     # otherwise a full file system would stop the guest at run time
        add(element, 'discard')


def share(root: etree.Element) -> None:
    """Share the guest's memory with the vhost-user backend, a switch or virtiofsd, which reads and writes it."""
    element = _element(root)
    if element.find('source') is None:
        add(element, 'source', type=MEMFD)
    if element.find('access') is None:
        add(element, 'access', mode=SHARED)


def _element(root: etree.Element) -> etree.Element:
    found = root.find('memoryBacking')
    return add(root, 'memoryBacking') if found is None else found
