"""The hosts at one moment: a struct of arrays, one entry a compute node."""
import numpy as np

NODE_COLUMNS = ('id', 'host', 'node', 'changed', 'vcpus', 'memory_mb', 'local_gb', 'reserved_memory_mb',
                'reserved_disk_gb', 'cpu_allocation_ratio', 'ram_allocation_ratio', 'disk_allocation_ratio',
                'vcpus_used', 'memory_mb_used', 'local_gb_used', 'running_vms', 'capabilities', 'hypervisor_type')
SERVICE_COLUMNS = ('availability_zone', 'disabled', 'forced_down', 'last_seen_at')
RESOURCES = ('vcpus', 'memory_mb', 'local_gb')


class Hosts:
    """A moment's view: arrays of equal length. Choosing changes ``used`` of its own copy only.

    ids, host, node, zone   who and where (arrays of objects, ids of integers)
    enabled, forced_down    of the host's service; seen: its last heartbeat (numpy datetime64, NaT for none)
    total, capacity, used   {resource: array}; resources are vcpus, memory_mb and local_gb
    running_vms             servers on the node
    group, members          the scheduler.groups.Group that is placed, and how many of it are on each host
    """

    group = members = None

    def __init__(self, rows):
        def column(name, dtype=object):
            array = np.empty(len(rows), dtype=dtype)
            array[:] = [row[name] for row in rows]
            return array
        self.rows = rows
        self.ids = column('id', np.int64)
        self.host, self.node = column('host'), column('node')
        self.zone = column('availability_zone')
        self.enabled = np.array([row['disabled'] is not None and not row['disabled'] for row in rows], dtype=bool)
        self.forced_down = np.array([bool(row['forced_down']) for row in rows], dtype=bool)
        self.seen = column('last_seen_at', 'datetime64[us]')
        self.running_vms = column('running_vms', np.int64)
        self.total = {name: column(name, np.int64) for name in RESOURCES}
        self.capacity = {
            'vcpus': self.total['vcpus'] * column('cpu_allocation_ratio', float),
            'memory_mb': ((self.total['memory_mb'] - column('reserved_memory_mb', np.int64))
                          * column('ram_allocation_ratio', float)),
            'local_gb': ((self.total['local_gb'] - column('reserved_disk_gb', np.int64))
                         * column('disk_allocation_ratio', float))}
        self.used = {name: column(name + '_used', np.int64) for name in RESOURCES}

    def __len__(self):
        return len(self.rows)

    def free(self, resource):
        """What one more server could get on each: what is left of the capacity, at most what the node has."""
        return np.minimum(self.capacity[resource] - self.used[resource], self.total[resource])

    def copy(self):
        """A view whose usage may be changed."""
        twin = object.__new__(Hosts)
        twin.__dict__.update(self.__dict__)
        twin.used = {name: array.copy() for name, array in self.used.items()}
        twin.running_vms = self.running_vms.copy()
        return twin

    def with_usage(self, rows):
        """A view in which these rows, of hosts that it has, have other usage: {position: row}."""
        twin = self.copy()
        twin.rows = list(self.rows)
        for position, row in rows.items():
            twin.rows[position] = row
            for name in RESOURCES:
                twin.used[name][position] = row[name + '_used']
            twin.running_vms[position] = row['running_vms']
        return twin

    def consume(self, position, asked):
        for name in RESOURCES:
            self.used[name][position] += asked[name]
        self.running_vms[position] += 1
        if self.group is not None:
            self.members = self.members + (self.host == self.host[position])
