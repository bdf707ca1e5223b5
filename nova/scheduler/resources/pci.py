"""PCI devices of a request; a special resource.

The table of free devices (pci_table.py) only guides the choice. The claim's transaction decides which devices a server
gets (db/placement/pci_devices.py).
"""
from oslo_config import cfg

from nova import objects
from nova.db import engine
from nova.db.placement import pci_devices
from nova.db.tables.rows import ComputeNodesRow, InstancesRow
from nova.objects import pci
from nova.scheduler import host_view
from nova.scheduler.placement_request import Claim
from nova.scheduler.placement_request import PINNED
from nova.scheduler.placement_request import Request
from nova.scheduler.placement_request import SpecialResource


class Devices(SpecialResource):
    """The PCI devices of a request."""

    def __init__(self, requests: tuple[pci.Request, ...]) -> None:
        self.requests = requests

    def take(self, conn: engine.Connection, node: ComputeNodesRow, claim: Claim) -> bool:
        host, guest = claim.taken.get(PINNED, (None, None))
        cells = guest and [cell.id for cell in guest.cells]
        return pci_devices.claim(conn, node['host'], node['node'], self.requests, claim.instance_uuid,
                                 claimed_by_move=claim.migration_id is not None, topology=host, cells=cells)

    def consume(self, hosts: host_view.Hosts, position: int) -> None:
        hosts.pci = hosts.pci.without(position, self.requests)


def without_server(conn: engine.Connection, hosts: host_view.Hosts, row: InstancesRow) -> host_view.Hosts:
    """Return a view of the hosts in which the devices of a server, given its instances row, are free."""
    if row['host'] is None or row['node'] is None or not pci.requested(row['flavor']):
        return hosts
    stats = pci_devices.without(conn, row['host'], row['node'], row['uuid'])
    hosts = hosts.copy()
    hosts.pci = hosts.pci.changed({position: stats for position in hosts.positions(row['host'])
                                   if hosts.node[position] == row['node']})
    return hosts


def requested(conf: cfg.ConfigOpts, spec: objects.RequestSpec) -> Devices | None:
    """Return the Devices of a request, or None if its flavor requests none."""
    requests = pci.requested(spec.flavor)
    return Devices(requests) if requests else None


def requests_of(request: Request) -> tuple[pci.Request, ...]:
    """Return the devices that a request needs."""
    return next((each.requests for each in request.special if isinstance(each, Devices)), ())
