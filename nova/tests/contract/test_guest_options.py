"""Each row of the table of guest options has a proof: a case that shows it, or a test that is named here."""
import ast
import pathlib
import re

import pytest

pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova.hardware import guest_option_rows as rows
from nova.hardware import guest_options
from nova.tests.support import guest_options as test_guest_options
from nova.tests.support import libvirt_settings as test_libvirt_settings

TESTS = pathlib.Path(__file__).parents[1]

# What neither the driver nor a refusal shows: (pattern of rows' names, test, pattern of what its file has of them).
SHOWN = (
    ('cpu_(max_)?(sockets|cores|threads)',
     'unit/test_hardware_cpus.py::test_cpu_topology_follows_limits_and_preferences', 'max_sockets'),
    ('cpu_policy', 'unit/test_hardware_wanted.py::test_cpu_policies_follow_the_policy_matrix', 'cpu_policy'),
    ('cpu_thread_policy', 'unit/test_hardware_wanted.py::test_thread_policy_comes_from_flavor_or_image',
     'cpu_thread_policy'),
    ('cpu_dedicated_mask', 'unit/test_hardware_wanted.py::test_mixed_policy_pins_the_cpus_of_the_mask',
     'cpu_dedicated_mask'),
    ('cpu_realtime(_mask)?', 'unit/test_hardware_wanted.py::test_realtime_mask_selects_realtime_cpus',
     'cpu_realtime_mask'),
    ('emulator_threads_policy', 'unit/test_hardware_wanted.py::test_realtime_mask_selects_realtime_cpus',
     'emulator_threads_policy'),
    ('numa_(nodes|cpus|mem)', 'unit/test_hardware_wanted.py::test_requested_nodes_divide_cpus_and_memory', 'numa_mem'),
    ('mem_page_size', 'unit/test_hardware_wanted.py::test_page_size_of_the_image_needs_permission_of_the_flavor',
     'mem_page_size'),
    ('pci_numa_affinity_policy', 'unit/test_hardware_wanted.py::test_pci_policy_comes_from_flavor_or_image',
     'pci_numa_affinity_policy'),
    ('pci_alias', 'functional/test_pci_cloud.py::test_server_beyond_the_devices_gets_a_fault_with_the_reason',
     'pci_passthrough__alias'),
    ('vgpu', 'functional/test_pci_cloud.py::test_virtual_gpus_are_counted_and_exclude_the_whole_card',
     'resources__VGPU'),
    ('dedicated', 'unit/test_hardware_wanted.py::test_resources_pcpu_requests_dedicated_cpus',
     'resources:PCPU|DEDICATED'),
    ('architecture|hypervisor_type|hypervisor_version|vm_mode',
     'contract/test_scheduler_filters.py::test_filter_passes_the_expected_hosts_and_has_a_reason',
     'hw_architecture|hypervisor_version_requires|vm_mode'),
    ('aggregate|capabilities',
     'contract/test_scheduler_filters.py::test_filter_passes_the_expected_hosts_and_has_a_reason', 'capabilities'),
    ('trait|group_policy',
     'functional/test_core_scheduler_filters.py::test_required_and_forbidden_traits_select_hosts', 'trait'),
    ('counted|machine', 'integration/test_ironic.py::test_a_machine_has_one_server_and_a_class_only_its_machines',
     'resources:VCPU'),
    ('trust_trusted_host',
     'contract/test_scheduler_attestation.py::test_trusted_filter_passes_hosts_of_the_requested_level',
     'trust'),
    ('command_line', 'unit/test_libvirt_xml.py::test_kernel_command_line_has_a_default_and_can_be_set',
     'os_command_line'),
    ('video_ram_max_mb', 'unit/test_libvirt_settings.py::test_domain_has_the_element_of_each_guest_option',
     'hw_video:ram_max_mb'),
    ('rescue_(bus|device)', 'functional/test_other_actions.py::test_volume_backed_server_needs_a_stable_rescue_image',
     'hw_rescue_device'),
    ('cdrom_bus', 'unit/test_libvirt_volumes.py::test_device_type_bus_and_name_of_a_volume_are_used', 'hw_cdrom_bus'),
    ('img_config_drive', 'functional/test_servers_create.py::test_a_server_with_files_gets_a_config_drive',
     'img_config_drive'),
    ('auto_disk_config',
     'functional/test_servers_create.py::test_image_without_auto_disk_config_refuses_auto', 'auto_disk_config'),
    ('img_signature.*', 'unit/test_image_signatures.py::test_valid_image_signature_is_accepted',
     'img_signature_hash_method'),
    ('.*mappings.*', 'functional/test_image_references.py::test_mapping_of_an_image_cannot_use_foreign_volumes',
     'block_device_mapping'),
    ('ephemeral_encryption(_format)?',
     'unit/test_libvirt_storage.py::test_encrypted_disks_open_with_the_key_of_their_guest_alone',
     'hw:ephemeral_encryption'),
    ('os_require_quiesce', 'functional/test_volumes.py::test_guest_is_quiesced_while_its_volumes_are_copied',
     'os_require_quiesce'),
    ('metadata_tokens', 'unit/test_metadata_tokens.py::test_tokens_can_be_required_for_one_server', 'metadata:tokens'),
    ('.kernel.ramdisk._id',
     'unit/test_libvirt_storage.py::test_kernel_and_ramdisk_are_copied_into_the_guest_directory', 'kernel_id'),
)
CARRIED_OUT = [row for row in rows.ROWS if row.by in (rows.PLACE, rows.CREATE, rows.COMPUTE)]


def shown(row):
    return next((each for each in SHOWN if re.fullmatch(each[0], row.name)), None)


def test_every_row_has_a_proof():
    """A row of the driver is in PROOFS, a value that is refused in REFUSED, what others do in SHOWN; information alone
    has nothing to show."""
    without = {row.name for row in rows.ROWS if not (
        row.by == rows.FACT or row.name in test_libvirt_settings.PROOFS or row.name in test_guest_options.REFUSED
        or shown(row))}
    assert not without
    assert {row.by for row in rows.ROWS} <= {rows.GUEST, rows.PLACE, rows.CREATE, rows.COMPUTE, rows.FACT, rows.REFUSED}
    assert all(row.refused for row in rows.ROWS if row.by == rows.REFUSED)
    assert all(row.by in (rows.GUEST, rows.COMPUTE) for row in rows.ROWS if row.traits)


@pytest.mark.parametrize('row', CARRIED_OUT, ids=lambda row: row.name)
def test_the_test_that_is_named_is_there_and_is_about_it(row):
    _names, test, words = shown(row)
    path, _, name = test.partition('::')
    text, shared = (TESTS / path).read_text(), TESTS / 'support' / path.rpartition('/')[2].removeprefix('test_')
    assert name in {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    assert re.search(words, text + (shared.read_text() if shared.exists() else ''))


@pytest.mark.parametrize('row', rows.ROWS, ids=lambda row: row.name)
def test_a_row_is_well_formed(row):
    assert row.spec or row.prop
    for pattern in (row.spec, row.prop, row.values, *row.traits, *row.refused):
        re.compile(pattern or '')
    assert row.values == rows.ANY or not re.fullmatch(row.values, 'no such value!')
    assert row.meaning and not row.meaning.endswith('.')
    for sentence in row.refused.values():
        assert sentence[0].isupper() and not sentence.endswith('.')


def test_every_trait_is_one_that_os_traits_names_or_ours():
    """https://docs.openstack.org/os-traits/latest/reference/traits.html"""
    ours = {rows.ALL_OPTIONS, rows.GROWTH}
    assert all(re.fullmatch('COMPUTE_[A-Z0-9_]+|HW_CPU_X86_AMD_SEV(_ES)?', trait)
               for trait in guest_options.every_trait() - ours)
