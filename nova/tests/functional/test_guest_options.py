"""What the table of guest options refuses, on a whole cloud of fake hosts: by the API, the scheduler, or a host."""

import pytest

from nova.hardware import guest_option_rows as rows
from nova.tests.functional import cloud as fixture
from nova.tests.support import pci_cloud as test_pci_cloud
from nova.tests.support.guest_options import REFUSED


@pytest.fixture(scope='module')
def clients(tmp_path_factory):
    with fixture.running(tmp_path_factory.mktemp('cloud'), ['host1', 'host2']) as made:
        yield test_pci_cloud.Clients(made)


def flavor(clients, specs):
    """A flavor with these extra specs, set before 2.86, when they were not checked."""
    name = f'f{len(clients.admin.get("/flavors").json()["flavors"])}'
    clients.flavor(name)
    if specs:
        answer = clients.admin.post(f'/flavors/{name}/os-extra_specs', {'extra_specs': specs}, version='2.85')
        assert answer.status_code == 200, answer.text
    return name


def image(clients, properties):
    return clients.user.upload_image(**properties)


def test_every_row_that_refuses_has_a_proof():
    assert {row.name for row in rows.ROWS if row.refused} == set(REFUSED)


@pytest.mark.parametrize('name', sorted(REFUSED))
def test_unsupported_guest_option_returns_400_with_the_reason(clients, name):
    kind, key, value = REFUSED[name]
    made = flavor(clients, {key: value} if kind == 'spec' else {})
    answer = clients.asked(made, imageRef=image(clients, {key: value} if kind == 'prop' else {}))
    assert answer.status_code == 400
    message = answer.json()['badRequest']['message']
    row = next(row for row in rows.ROWS if row.name == name)
    assert key in message and any(why and why in message for why in row.refused.values())


CONTRADICTIONS = {
    'a wrong value': ({'hw:tpm_version': '3.0'}, {}, 'is not a valid value of'),
    'an unknown key': ({'hw:tmp_version': '2.0'}, {}, 'hw:tmp_version is unknown'),
    'flavor and image': ({'hw:tpm_version': '2.0'}, {'hw_tpm_version': '1.2'}, 'but the flavor has'),
    'two spellings in the flavor': (
        {'hide_hypervisor_id': 'yes', 'hw:hide_hypervisor_id': 'no'}, {}, "the extra spec hw:hide_hypervisor_id is "
        "'false', but the extra spec hide_hypervisor_id is 'true'. Remove one of them."),
    'secure boot without UEFI': ({'os:secure_boot': 'required'}, {}, 'needs UEFI'),
    'secure boot on pc': ({'os:secure_boot': 'required'}, {'hw_firmware_type': 'uefi', 'hw_machine_type': 'pc'}, 'q35'),
    'video memory': ({}, {'hw_video_ram': '64'}, 'ram_max_mb'),
    'serial ports': ({'hw:serial_port_count': '2'}, {'hw_serial_port_count': '3'}, 'more than'),
    'a burst alone': ({'quota:disk_read_iops_sec_max': '10'}, {}, 'more than quota:disk_read_iops_sec'),
    'total and read': ({'quota:disk_read_iops_sec': '10', 'quota:disk_total_iops_sec': '10'}, {}, 'cannot be combined'),
    'a burst above the maximum': (
        {'quota:disk_total_bytes_sec': '1', 'quota:disk_total_bytes_sec_max': '1000000000000001'}, {},
        'quota:disk_total_bytes_sec_max must be at most 1000000000000000'),
    'IDE on q35': ({}, {'hw_machine_type': 'q35', 'hw_disk_bus': 'ide'}, 'the machine type q35 of the guest has no'),
    'IDE and an IOMMU': ({'hw:viommu_model': 'intel'}, {'hw_disk_bus': 'ide'}, 'the machine type q35 of the guest has'),
    'IDE and another architecture': ({}, {'hw_architecture': 'arm64', 'hw_disk_bus': 'ide'}, 'the machine type virt'),
    'an option of another architecture': (
        {'hw:viommu_model': 'intel'}, {'hw_architecture': 'aarch64'}, "viommu_model 'intel' is only for x86"),
    'a peak alone': ({'quota:vif_inbound_peak': '10'}, {}, 'need quota:vif_inbound_average'),
}


@pytest.mark.parametrize('name', CONTRADICTIONS)
def test_contradictory_guest_options_return_400(clients, name):
    specs, properties, sentence = CONTRADICTIONS[name]
    answer = clients.asked(flavor(clients, specs), imageRef=image(clients, properties))
    assert answer.status_code == 400 and sentence in answer.json()['badRequest']['message']


def test_flavor_with_more_vcpus_than_a_pc_can_have_returns_400(clients):
    made = clients.admin.post('/flavors', {'flavor': {'name': 'huge', 'ram': 64, 'vcpus': 256, 'disk': 1}})
    answer = clients.asked(made.json()['flavor']['id'], imageRef=image(clients, {}))
    assert answer.status_code == 400 and 'at most 255' in answer.json()['badRequest']['message']


def test_option_that_no_host_supports_is_named_in_the_scheduler_fault(clients):
    uefi = image(clients, {'hw_firmware_type': 'uefi'})
    answer = clients.asked(flavor(clients, {'hw:mem_encryption': 'true'}), imageRef=uefi)
    found = clients.user.wait_for(answer.json()['server']['id'], 'ERROR')
    assert 'HW_CPU_X86_AMD_SEV' in found['fault']['message']


def test_a_host_that_was_forced_refuses_it_itself(clients):
    uefi = image(clients, {'hw_firmware_type': 'uefi'})
    made = flavor(clients, {'hw:mem_encryption': 'true'})
    answer = clients.admin.post('/servers', {'server': {
        'name': 'a', 'imageRef': uefi, 'flavorRef': made, 'networks': 'none', 'availability_zone': 'nova:host1'}},
        version='2.37')
    found = clients.admin.wait_for(answer.json()['server']['id'], 'ERROR')
    assert 'cannot do what the flavor or the image asks for' in str(found['fault'])


def test_supported_guest_options_lead_to_an_active_server(clients):
    specs = {'hw:tpm_version': '2.0', 'os:secure_boot': 'required', 'quota:disk_read_bytes_sec': '1000000'}
    answer = clients.asked(flavor(clients, specs), imageRef=image(clients, {'hw_firmware_type': 'uefi'}))
    server = clients.user.wait_for(answer.json()['server']['id'], 'ACTIVE')
    refused = clients.user.post(f'/servers/{server["id"]}/action', {'resize': {
        'flavorRef': flavor(clients, {'accel:device_profile': 'gpu'})}})
    assert refused.status_code == 400 and 'accelerator' in refused.text
    refused = clients.user.post(f'/servers/{server["id"]}/action', {'rebuild': {
        'imageRef': image(clients, {'hw_firmware_type': 'bios'})}})
    assert refused.status_code == 400 and 'needs UEFI' in refused.text


@pytest.mark.parametrize('specs, properties, refused', [
    ({'hw:tpm_version': '2.0'}, {}, {'shelve', 'createImage', 'createBackup'}),
    ({}, {'hw_tpm_version': '2.0', 'hw_tpm_model': 'tpm-crb'}, {'shelve', 'createImage', 'createBackup'}),
    ({}, {'hw_firmware_type': 'uefi'}, {'shelve'}), ({}, {}, set())])
def test_actions_that_would_lose_a_tpm_or_variables_are_refused(clients, specs, properties, refused):
    answer = clients.asked(flavor(clients, specs), imageRef=image(clients, properties))
    server = clients.user.wait_for(answer.json()['server']['id'], 'ACTIVE')['id']
    for name, body in (('createImage', {'name': 'a'}), ('shelve', None),
                       ('createBackup', {'name': 'a', 'backup_type': 'daily', 'rotation': 1})):
        if name in refused:
            got = clients.user.post(f'/servers/{server}/action', {name: body})
            assert got.status_code == 409 and f'Cannot run {name}' in got.text, (name, got.text)
    assert clients.user.get(f'/servers/{server}').json()['server']['status'] == 'ACTIVE'
    if not refused:
        assert clients.user.post(f'/servers/{server}/action', {'shelve': None}).status_code == 202


def test_a_rebuild_keeps_the_tpm(clients):
    chosen = image(clients, {})
    answer = clients.asked(flavor(clients, {'hw:tpm_version': '2.0'}), imageRef=chosen)
    server = clients.user.wait_for(answer.json()['server']['id'], 'ACTIVE')['id']

    def tpm():
        drivers = [service.manager.driver for service in clients.cloud.services
                   if service.binary == 'nova-compute']
        return next(found['tpm'] for each in drivers for uuid, found in each.machine.guests.items() if uuid == server)
    before = tpm()
    assert clients.user.post(f'/servers/{server}/action', {'rebuild': {'imageRef': chosen}}).status_code == 202
    clients.user.wait_for(server, 'ACTIVE')
    assert tpm() == before
