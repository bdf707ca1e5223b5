"""What of a foreign guest can be taken over, by its XML and the headers of its disks."""
import struct

import pytest

from nova.virt.libvirt.features import adopted

GUEST = """<domain><name>old</name><uuid>u</uuid><memory unit='KiB'>{memory}</memory><vcpu>2</vcpu>
<os>{os}</os>{more}<devices>{first}<disk type='file' device='disk'><driver type='qcow2'/><source file='/a'/>
<target dev='vda' bus='virtio'/></disk>{devices}</devices></domain>"""
HVM = "<type arch='x86_64' machine='pc-q35-7.2'>hvm</type>"


def read(os=HVM, more='', first='', devices='', memory=131073, size=adopted.GIB + 1):
    return adopted.read(GUEST.format(os=os, more=more, first=first, devices=devices, memory=memory),
                        lambda path, form: size)


def test_adopted_domain_is_described_with_disks_devices_and_sizes():
    found = read(devices="<disk type='file'><source file='/b'/><target dev='sda' bus='scsi'/><boot order='1'/></disk>"
                 "<disk type='file' device='cdrom'><target dev='sdb' bus='sata'/></disk><sound model='ich9'/>"
                 "<interface><mac address='52:54:00:00:00:01'/><model type='e1000'/></interface>")
    assert found.refusals == [] and (found.name, found.vcpus, found.memory_mb, found.root_gb) == ('old', 2, 129, 2)
    assert [(disk.file, disk.format, disk.target, disk.bus) for disk in found.disks] == [
        ('/b', 'raw', 'sda', 'scsi'), ('/a', 'qcow2', 'vda', 'virtio')]
    assert found.lost == ['cdrom sdb', 'sound'] and found.macs == ['52:54:00:00:00:01']
    assert (found.vif_model, found.machine) == ('e1000', 'pc-q35-7.2')
    assert adopted.misfit(found, 2, 129, 2) is None and adopted.misfit(found, 2, 129, 5) is None
    assert 'vCPUs' in adopted.misfit(found, 1, 129, 2) and 'memory' in adopted.misfit(found, 2, 128, 2)
    assert 'GiB' in adopted.misfit(found, 2, 129, 1)


@pytest.mark.parametrize('values, why', [
    ({'os': HVM.replace('x86_64', 'aarch64')}, 'x86_64'), ({'os': HVM.replace('pc-q35-7.2', 'xenfv')}, 'xenfv'),
    ({'os': HVM + '<loader>/x</loader>'}, 'UEFI'), ({'os': HVM + '<kernel>/x</kernel>'}, 'kernel'),
    ({'more': "<launchSecurity type='sev'/>"}, 'encrypted'), ({'devices': '<tpm/>'}, 'TPM'),
    ({'devices': '<hostdev/>'}, 'device of the host'), ({'devices': '<filesystem/>'}, 'file system'),
    ({'first': "<disk type='network'><source name='x'/><target dev='vdb' bus='virtio'/></disk>"}, 'vdb is no file'),
    ({'first': "<disk><source file='/x'/><target dev='vdb' bus='xen'/></disk>"}, 'bus xen'),
    ({'first': "<disk><driver type='vmdk'/><source file='/x'/><target dev='vdb' bus='ide'/></disk>"}, 'vmdk'),
    ({'first': "<disk><source file='/x'/><target dev='vdb' bus='ide'/><shareable/></disk>"}, 'shared')])
def test_unsupported_domain_is_refused_with_the_reason(values, why):
    assert why in '; '.join(read(**values).refusals)


def header(backing=0, version=3, features=0, encryption=0):
    return (b'QFI\xfb' + struct.pack('>IQIIQI', version, backing, 0, 16, 7 << 20, encryption)).ljust(72, b'\0') + (
        struct.pack('>Q', features).ljust(40, b'\0'))


@pytest.mark.parametrize('content, why', [
    (header(backing=512), 'backing file'), (header(features=4), 'external data file'),
    (header(encryption=1), 'encrypted'), (b'x' * 112, 'but its data is not'), (header()[:40], 'but its data is not')])
def test_unsupported_disk_file_is_refused_with_the_reason(tmp_path, content, why):
    path = tmp_path / 'disk'
    path.write_bytes(content)
    with pytest.raises(ValueError, match=why):
        adopted.size(str(path), 'qcow2')


def test_size_of_an_adopted_disk_is_the_guest_visible_one(tmp_path):
    path = tmp_path / 'disk'
    path.write_bytes(header())
    assert adopted.size(str(path), 'qcow2') == 7 << 20
    assert adopted.size(str(path), 'raw') == 112
    path.write_bytes(header(version=2, features=4))
    assert adopted.size(str(path), 'qcow2') == 7 << 20, 'version 2 has no features'
