"""Hosts and requests for tests of placement, without a database."""
import uuid as uuidlib

import numpy as np

from nova import conf as nova_conf
from nova import objects
from nova import utils
from nova.scheduler import explain
from nova.scheduler import filters
from nova.scheduler import host_view
from nova.scheduler import pipeline
from nova.scheduler import placement_request

FLAVOR = {'flavor_id': '1', 'name': 'm1.small', 'memory_mb': 512, 'vcpus': 1, 'root_gb': 1, 'ephemeral_gb': 0,
          'swap': 0, 'extra_specs': {}}
SMALL = {'vcpus': 1, 'memory_mb': 512, 'local_gb': 1}
IMAGE_ID = '70a599e0-31e7-49b7-b260-868f441e862b'


def row(number, **changes):
    """The row of host ``h<number>`` with node ``n<number>``: 8 CPUs at 2.0, 8 GiB and 100 GiB, nothing on it."""
    return {
        'id': number + 1, 'cell': 'c', 'host': f'h{number}', 'node': f'n{number}', 'change_number': 1,
        'usage_change_number': 1,
        'vcpus': 8, 'memory_mb': 8192, 'local_gb': 100, 'reserved_memory_mb': 0, 'reserved_disk_gb': 0,
        'cpu_allocation_ratio': 2.0, 'ram_allocation_ratio': 1.0, 'disk_allocation_ratio': 1.0, 'vcpus_used': 0,
        'memory_mb_used': 0, 'local_gb_used': 0, 'running_vms': 0, 'io_ops': 0, 'failed_builds': 0, 'metrics': None,
        'capabilities': {}, 'hypervisor_type': 'QEMU', 'hypervisor_version': 7002000,
        'host_ip': f'192.0.2.{number % 250 + 1}',
        'cpu_info': {'arch': 'x86_64', 'features': []}, 'supported_instances': [['x86_64', 'kvm', 'hvm']],
        'traits': [], 'pci_stats': None, 'numa_topology': None, 'availability_zone': 'nova', 'disabled': False,
        'forced_down': False, 'last_seen_at': utils.utcnow(), 'aggregates': [], **changes}


def hosts(*changes):
    """A view of hosts h0, h1, …, one for each dict of columns that differ."""
    return host_view.Hosts([row(number, **change) for number, change in enumerate(changes)])


def aggregates(*metadata):
    """The column of a host that is in aggregates with these metadata."""
    return [{'id': number, 'uuid': str(uuidlib.UUID(int=number)), 'name': f'a{number}', 'metadata': each}
            for number, each in enumerate(metadata)]


def spec(extra_specs=None, properties=None, hints=None, flavor=None, **values):
    """A RequestSpec; hints as users give them."""
    return objects.RequestSpec(**{
        'instance_uuid': str(uuidlib.uuid4()), 'project_id': 'p', 'user_id': 'u',
        'flavor': {**FLAVOR, 'extra_specs': extra_specs or {}, **(flavor or {})},
        'image': {'id': IMAGE_ID, 'properties': properties or {}},
        'availability_zone': None, 'requested_networks': None, 'security_groups': [], 'injected_files': [],
        'admin_password': None, 'block_devices': [], 'force_host': None, 'force_node': None,
        'requested_host': None, 'requested_node': None, 'retry_hosts': [], 'num_instances': 1,
        'hints': {name: value if isinstance(value, list) else [value] for name, value in (hints or {}).items()},
        **values})


def request(asked=None, facts=None, **values):
    """A Request; what it does not know is of its spec."""
    names = placement_request.Request.__dataclass_fields__
    own = {name: values.pop(name) for name in list(values) if name in names}
    return placement_request.Request(resources={**SMALL, **(asked or {})}, facts=facts or {},
                            **{'spec': spec(**values), **own})


def conf(**options):
    return nova_conf.new(files=[], **options)


def only(name, **options):
    """The filter of a name, configured."""
    found = filters.load(conf(**options), [name])
    return next(each for each in found if each.name == name)


def narrow(table, asking, using):
    """(positions of the hosts that pass all filters, a Removal for each filter that removed hosts)."""
    left, steps = pipeline.survivors(table, asking, using)
    return left, [explain.removal(each, table, asking, np.flatnonzero(before & ~after))
                  for each, before, after in steps]


def passing(each, table, asking):
    """(names of the hosts that a filter lets through, what it says about the others or None)."""
    left, removals = narrow(table, asking, [each])
    return [table.host[position] for position in left], removals[0].reason if removals else None
