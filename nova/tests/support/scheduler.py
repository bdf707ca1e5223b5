"""What tests share with nova/tests/unit/test_scheduler.py."""
from nova import conf as nova_conf
from nova import utils
from nova.scheduler import host_view
from nova.scheduler import weights

CONF = nova_conf.new(files=[])
SMALL = {'vcpus': 1, 'memory_mb': 512, 'local_gb': 1}


def hosts(*changes, count=None):
    rows = []
    for number, change in enumerate(changes or [{}] * count):
        rows.append({
            'id': number + 1, 'host': f'h{number}', 'node': f'n{number}', 'change_number': 1, 'vcpus': 8,
            'memory_mb': 8192, 'local_gb': 100, 'reserved_memory_mb': 0, 'reserved_disk_gb': 0,
            'cpu_allocation_ratio': 2.0, 'ram_allocation_ratio': 1.0, 'disk_allocation_ratio': 1.0, 'vcpus_used': 0,
            'memory_mb_used': 0, 'local_gb_used': 0, 'running_vms': 0, 'capabilities': {},
            'hypervisor_type': 'fake', 'availability_zone': 'nova', 'disabled': False, 'forced_down': False,
            'last_seen_at': utils.utcnow(), **change})
    return host_view.Hosts(rows)


def with_multipliers(multipliers):
    """The built-in weighers with these multipliers, {option: number}."""
    return tuple(weights.Weigher(name, option, values, multipliers[option])
                 for name, option, values in weights.WEIGHERS if option in multipliers)
