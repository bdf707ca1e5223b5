"""What tests share with nova/tests/integration/test_libvirt_resize.py."""
from nova.tests.support import libvirt as base
from nova.virt import driver as contract

state_path, module_rig, rig, instance = base.state_path, base.module_rig, base.rig, base.instance
GIB = 1024 ** 3


def resize(rig, instance, power_on=True, **flavor):
    """Both ends of a resize; the values of the instance before it."""
    before = {name: getattr(instance, name) for name in flavor}
    sent = rig.driver.features[contract.Resize].send_guest(None, instance, rig.driver.host, [], 0)
    for name, value in flavor.items():
        setattr(instance, name, value)
    rig.driver.features[contract.Resize].finish_migration(None, instance, sent,
                                                          contract.SpawnRequest(image=rig.image,
                                                                              network_info=[]), power_on)
    return before


def size(path):
    with open(path, 'rb') as file:
        return int.from_bytes(file.read(32)[24:32])
