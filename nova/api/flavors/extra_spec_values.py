"""Flavor extra specs of the documented namespaces: which keys there are, and their values (from 2.86 on).

A row says what a value may be. Keys of other namespaces are free, and so are keys without one that BARE does not name.
"""
import re

from nova import exception

_BOOLEAN = r'(?i:true|false|yes|no|on|off|1|0|t|f|y|n)'
_ANY = r'.*'
_NUMBER = r'[0-9]+'
_POSITIVE = r'0*[1-9][0-9]*'
_CPUS = r'\^?[0-9]+(-[0-9]+)?(,\^?[0-9]+(-[0-9]+)?)*'
_BUSES = 'fdc|ide|sata|scsi|usb|virtio|none'
_CLASS = r'(CUSTOM_[A-Z0-9_]+|[A-Z][A-Z0-9_]*)'
_GROUP = r'([1-9][0-9]*|_[a-zA-Z0-9_-]{1,64})?'
_MODEL = r'[a-z0-9][a-z0-9-]*'
_PAGE_SIZE = r'(?i:any|small|large|[0-9]+ ?([kmgt]i?b?)?)'
_SHARES = {'limit': r'-?[0-9]+', 'reservation': _NUMBER, 'shares_level': 'custom|high|normal|low',
           'shares_share': _NUMBER}

# namespace (a pattern) -> {key after it (a pattern): value (a pattern)}
KNOWN = {
    'accel': {'device_profile': _ANY},
    'aggregate_instance_extra_specs': {_ANY: _ANY},
    'capabilities': {_ANY: _ANY},
    'hw': {
        'boot_menu': _BOOLEAN, 'cpu_cores': _POSITIVE, 'cpu_sockets': _POSITIVE, 'cpu_threads': _POSITIVE,
        'cpu_max_cores': _POSITIVE, 'cpu_max_sockets': _POSITIVE, 'cpu_max_threads': _POSITIVE,
        'cpu_policy': 'dedicated|shared|mixed', 'cpu_thread_policy': 'prefer|isolate|require',
        'cpu_dedicated_mask': _CPUS, 'cpu_realtime': _BOOLEAN, 'cpu_realtime_mask': _CPUS,
        'emulator_threads_policy': 'isolate|share', 'ephemeral_encryption': _BOOLEAN,
        'ephemeral_encryption_format': 'luks', 'hide_hypervisor_id': _BOOLEAN, 'input_bus': 'usb|virtio',
        'locked_memory': _BOOLEAN, 'maxphysaddr_bits': _POSITIVE, 'maxphysaddr_mode': 'passthrough|emulate',
        'mem_encryption': _BOOLEAN, 'mem_encryption_model': 'amd-sev|amd-sev-es|amd-sev-snp|intel-tdx',
        'mem_page_size': _PAGE_SIZE, 'numa_nodes': _POSITIVE, r'numa_cpus\.[0-9]+': _CPUS,
        r'numa_mem\.[0-9]+': _POSITIVE, 'pci_numa_affinity_policy': 'required|preferred|legacy|socket',
        'pmem': r'[a-zA-Z0-9_.-]+(,[a-zA-Z0-9_.-]+)*', 'pointer_model': 'ps2mouse|usbtablet',
        'redirected_usb_ports': _NUMBER, 'rescue_bus': _BUSES, 'rescue_device': 'cdrom|disk|floppy',
        'serial_port_count': _NUMBER, 'sound_model': _MODEL, 'tpm_model': 'tpm-tis|tpm-crb',
        'tpm_secret_security': 'user|host|deployment', 'tpm_version': r'1\.2|2\.0', 'usb_model': _MODEL,
        'vif_multiqueue_enabled': _BOOLEAN, 'viommu_model': 'none|intel|smmuv3|virtio|auto',
        'virtio_packed_ring': _BOOLEAN, 'watchdog_action': 'none|pause|poweroff|reset|disabled',
    },
    'hw_rng': {'allowed': _BOOLEAN, 'rate_bytes': _NUMBER, 'rate_period': _POSITIVE},
    'hw_video': {'ram_max_mb': _NUMBER},
    'os': {'secure_boot': 'required|disabled|optional', 'boot_menu': _BOOLEAN},
    'pci_passthrough': {'alias': r'[^:,]+:0*[1-9][0-9]*(,[^:,]+:0*[1-9][0-9]*)*'},
    'quota': {
        **{f'{resource}_{name}': values for resource in ('cpu', 'disk_io', 'memory', 'vif')
           for name, values in _SHARES.items()},
        'cpu_shares': _POSITIVE, 'cpu_period': _POSITIVE, 'cpu_quota': r'-?[0-9]+',
        'disk_(read|write|total)_(bytes|iops)_sec(_max(_length)?)?': _NUMBER,
        'vif_(inbound|outbound)_(average|burst|peak)': _NUMBER,
    },
    'resources' + _GROUP: {_CLASS: _NUMBER},
    'trait' + _GROUP: {_CLASS: 'required|forbidden'},
    'vmware': {'hw_version': _ANY, 'storage_policy': _ANY, 'boot_retry': _NUMBER},
}
# keys without a namespace
BARE = {'hide_hypervisor_id': _BOOLEAN, 'group_policy': 'none|isolate'}


def check(specs):
    """Refuse keys and values that a documented namespace does not have.

    :raises BadRequest:
    """
    for key, value in specs.items():
        namespace, colon, name = key.partition(':')
        if not colon:
            allowed = BARE.get(key, _ANY)
        else:
            rows = next((rows for pattern, rows in KNOWN.items() if re.fullmatch(pattern, namespace)), None)
            if rows is None:
                continue
            allowed = next((values for pattern, values in rows.items() if re.fullmatch(pattern, name)), None)
        if allowed is None:
            raise exception.BadRequest(f"Validation failed; extra spec '{key}' does not appear to be a valid "
                                       'extra spec.')
        if not re.fullmatch(allowed, value, re.DOTALL):
            raise exception.BadRequest(f"Validation failed; '{value}' is not a valid value of extra spec '{key}'.")
