"""Memory backing of guests, according to the options memory_source and file_backed_memory of [libvirt]."""
from xml.etree import ElementTree as etree

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.virt.libvirt.domain.tree import add, child

ANONYMOUS, MEMFD, FILE = 'anonymous', 'memfd', 'file'
SHARED = 'shared'
TRAIT = 'COMPUTE_MEM_BACKING_FILE'


def source_of(conf: ConfigOpts) -> str:
    """Return the configured memory source, which guests get at their start.

    :raises VirtError: the options contradict each other
    """
    options = conf.libvirt
    if not options.file_backed_memory:
        return str(options.memory_source)
    for wrong, sentence in (
            (options.memory_source != ANONYMOUS, 'memory_source must be anonymous'),
            (conf.ram_allocation_ratio > 1, 'the files are fully allocated: ram_allocation_ratio must be at most 1'),
            (conf.reserved_huge_pages, 'files have no huge pages: reserved_huge_pages must be empty')):
        if wrong:
            raise exception.VirtError(operation='use [libvirt] file_backed_memory', reason=sentence)
    return FILE


def backing(root: etree.Element, source: str) -> None:
    """Add the memory backing to a domain.

    :param source: ANONYMOUS, MEMFD or FILE
    :raises VirtError: the guest requests huge pages, which files do not have
    """
    if source == ANONYMOUS:
        return
    element = child(root, 'memoryBacking')
    if source == FILE and element.find('hugepages') is not None:
        raise exception.VirtError(operation='place the guest', reason='hw:mem_page_size requests large pages, but '
                                  'this host keeps guest memory in files ([libvirt] file_backed_memory)')
    add(element, 'source', type=source)
    if source == FILE:
        add(element, 'access', mode=SHARED)              # a private mapping would not write to the file
        add(element, 'allocation', mode='immediate')     # if the file system is full, fail at the start, not later
        add(element, 'discard')


def share(root: etree.Element) -> None:
    """Share the guest's memory with the vhost-user process (software switch or virtiofsd) that accesses it."""
    element = child(root, 'memoryBacking')
    if element.find('source') is None:
        add(element, 'source', type=MEMFD)
    if element.find('access') is None:
        add(element, 'access', mode=SHARED)
