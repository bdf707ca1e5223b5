"""Whose guest it is: metadata for agents of the host, and what the guest's firmware says of the cloud."""
from typing import Any
from xml.etree import ElementTree as etree

from nova.virt.libvirt.domain.tree import add

# Monitoring agents that know servers of the compute API read the first; ours alone is the second: it says whose
# guest it is when several deployments share one hypervisor.
NAMESPACE = 'http://openstack.org/xmlns/libvirt/nova/1.1'
OWNER_NAMESPACE = 'urn:nova:libvirt:owner:1'
etree.register_namespace('nova', NAMESPACE)
etree.register_namespace('owner', OWNER_NAMESPACE)


def metadata(root: etree.Element, guest: Any) -> None:
    """
    :param guest: xml.Guest
    """
    element = add(root, 'metadata')
    instance = add(element, f'{{{NAMESPACE}}}instance')
    facts = guest.facts
    add(instance, f'{{{NAMESPACE}}}name', facts.get('name', ''))
    add(instance, f'{{{NAMESPACE}}}flavor', name=facts.get('flavor', ''))
    owner = add(instance, f'{{{NAMESPACE}}}owner')
    add(owner, f'{{{NAMESPACE}}}user', uuid=facts.get('user_id', ''))
    add(owner, f'{{{NAMESPACE}}}project', uuid=facts.get('project_id', ''))
    if facts.get('image_id'):
        add(instance, f'{{{NAMESPACE}}}root', type='image', uuid=facts['image_id'])
    add(element, f'{{{OWNER_NAMESPACE}}}owner', directory=guest.owner)


def owner(directory: str) -> str:
    """The element that says whose guest it is, as libvirt takes it from who adds it to a guest."""
    return etree.tostring(add(etree.Element('metadata'), 'owner', directory=directory), encoding='unicode')


def owner_of(text: str) -> str | None:
    """The owner named in a guest's owner element, as libvirt gives it back."""
    return etree.fromstring(text).get('directory')


def sysinfo(root: etree.Element, guest: Any) -> None:
    """cloud-init recognises the cloud by the product's name
    (https://cloudinit.readthedocs.io/en/latest/reference/datasources/openstack.html)."""
    system = add(add(root, 'sysinfo', type='smbios'), 'system')
    for name, value in (('manufacturer', 'OpenStack Foundation'), ('product', 'OpenStack Nova'),
                        ('serial', guest.uuid), ('uuid', guest.uuid), ('family', 'Virtual Machine')):
        add(system, 'entry', value, name=name)
