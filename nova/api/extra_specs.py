"""Flavor extra specs of the namespaces that this system gives a meaning: which keys there are, and their values."""
import re

from nova import exception

_BOOLEAN = r'(?i:true|false|yes|no|on|off|1|0)'
_NUMBER = r'[0-9]+'
_ANY = r'.*'

# namespace -> {key after it (a pattern): value (a pattern)}
KNOWN = {
    'hw': {
        'boot_menu': _BOOLEAN, 'cpu_cores': _NUMBER, 'cpu_sockets': _NUMBER, 'cpu_threads': _NUMBER,
        'cpu_max_cores': _NUMBER, 'cpu_max_sockets': _NUMBER, 'cpu_max_threads': _NUMBER,
        'cpu_policy': 'dedicated|shared|mixed', 'cpu_thread_policy': 'prefer|isolate|require',
        'emulator_threads_policy': 'isolate|share', 'cpu_dedicated_mask': r'[\^0-9,-]+',
        'cpu_realtime': _BOOLEAN, 'cpu_realtime_mask': r'[\^0-9,-]+', 'hide_hypervisor_id': _BOOLEAN,
        'locked_memory': _BOOLEAN, 'maxphysaddr_bits': _NUMBER, 'maxphysaddr_mode': 'passthrough|emulate',
        'mem_encryption': _BOOLEAN, 'mem_encryption_model': _ANY,
        'mem_page_size': r'(?i:any|small|large|[0-9]+ ?([kmgt]?i?b?))',
        'numa_nodes': _NUMBER, r'numa_cpus\.[0-9]+': r'[\^0-9,-]+', r'numa_mem\.[0-9]+': _NUMBER,
        'pci_numa_affinity_policy': 'required|preferred|legacy|socket', 'pmem': _ANY,
        'pointer_model': 'ps2mouse|usbtablet', 'redirected_usb_ports': _NUMBER,
        'rescue_bus': _ANY, 'serial_port_count': _NUMBER, 'sound_model': _ANY, 'tpm_model': 'tpm-tis|tpm-crb',
        'tpm_version': r'1\.2|2\.0', 'tpm_secret_security': 'user|host|deployment', 'usb_model': _ANY,
        'vif_multiqueue_enabled': _BOOLEAN, 'virtio_packed_ring': _BOOLEAN, 'viommu_model': _ANY,
        'watchdog_action': 'none|pause|poweroff|reset|disabled',
    },
    'hw_rng': {'allowed': _BOOLEAN, 'rate_bytes': _NUMBER, 'rate_period': _NUMBER},
    'hw_video': {'ram_max_mb': _NUMBER},
    'os': {'secure_boot': 'required|disabled|optional'},
    'quota': {
        'cpu_limit|cpu_period|cpu_quota|cpu_reservation|cpu_shares|cpu_shares_share': '-?[0-9]+',
        'cpu_shares_level': 'custom|high|normal|low',
        '(disk_io|memory|vif)_(limit|reservation|shares_share)': _NUMBER,
        '(disk_io|memory|vif)_shares_level': 'custom|high|normal|low',
        'disk_(read|write|total)_(bytes|iops)_sec(_max(_length)?)?': _NUMBER,
        'vif_(inbound|outbound)_(average|burst|peak)': _NUMBER,
    },
    'pci_passthrough': {'alias': r'[^:]+:[0-9]+(,[^:]+:[0-9]+)*'},
    'accel': {'device_profile': _ANY},
}


def check(specs):
    """Refuse keys and values that a known namespace does not have; other namespaces are free.

    :raises BadRequest:
    """
    for key, value in specs.items():
        namespace, colon, name = key.partition(':')
        rows = KNOWN.get(namespace) if colon else None
        if rows is None:
            continue
        allowed = next((values for pattern, values in rows.items() if re.fullmatch(pattern, name)), None)
        if allowed is None:
            raise exception.BadRequest(f"Validation failed; extra spec '{key}' does not appear to be a valid "
                                       'extra spec.')
        if not re.fullmatch(allowed, value):
            raise exception.BadRequest(f"Validation failed; '{value}' is not a valid value of extra spec '{key}'.")
