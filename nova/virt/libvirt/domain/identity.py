"""Identity of a guest: metadata for monitoring agents of the host, and SMBIOS data for cloud-init."""
import dataclasses
from xml.etree import ElementTree as etree

from nova.virt.libvirt.domain.tree import add

# Monitoring agents for OpenStack read the elements of NAMESPACE. The element of OWNER_NAMESPACE is for this service: it
# identifies the deployment of a guest if several deployments share one hypervisor.
NAMESPACE = 'http://openstack.org/xmlns/libvirt/nova/1.1'
OWNER_NAMESPACE = 'urn:nova:libvirt:owner:1'
etree.register_namespace('nova', NAMESPACE)
etree.register_namespace('owner', OWNER_NAMESPACE)


@dataclasses.dataclass
class Identity:
    """Identity of a guest.

    name    name of the domain in libvirt
    owner   directory with the guests of a deployment, which identifies the deployment
    facts   {'name', 'flavor', 'project_id', 'user_id', 'image_id'} of the server
    """

    name: str
    owner: str
    facts: dict[str, str | None] = dataclasses.field(default_factory=dict)


def metadata(root: etree.Element, identity: Identity) -> None:
    """Add the metadata of a guest."""
    element = add(root, 'metadata')
    instance = add(element, f'{{{NAMESPACE}}}instance')
    facts = identity.facts
    add(instance, f'{{{NAMESPACE}}}name', facts.get('name', ''))
    add(instance, f'{{{NAMESPACE}}}flavor', name=facts.get('flavor', ''))
    owner = add(instance, f'{{{NAMESPACE}}}owner')
    add(owner, f'{{{NAMESPACE}}}user', uuid=facts.get('user_id', ''))
    add(owner, f'{{{NAMESPACE}}}project', uuid=facts.get('project_id', ''))
    if facts.get('image_id'):
        add(instance, f'{{{NAMESPACE}}}root', type='image', uuid=facts['image_id'])
    add(element, f'{{{OWNER_NAMESPACE}}}owner', directory=identity.owner)


def owner(directory: str) -> str:
    """Return a guest's owner element without its namespace, which virDomainSetMetadata adds."""
    return etree.tostring(add(etree.Element('metadata'), 'owner', directory=directory), encoding='unicode')


def owner_of(text: str) -> str | None:
    """Return the owner (a directory) from an owner element that libvirt returned."""
    return etree.fromstring(text).get('directory')


def sysinfo(root: etree.Element, uuid: str) -> None:
    """Add the product name by which cloud-init recognises the cloud.

    https://cloudinit.readthedocs.io/en/latest/reference/datasources/openstack.html
    """
    system = add(add(root, 'sysinfo', type='smbios'), 'system')
    for name, value in (('manufacturer', 'OpenStack Foundation'), ('product', 'OpenStack Nova'),
                        ('serial', uuid), ('uuid', uuid), ('family', 'Virtual Machine')):
        add(system, 'entry', value, name=name)
