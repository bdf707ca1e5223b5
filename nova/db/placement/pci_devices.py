"""PCI devices of the compute nodes and their assignment.

    report   compare a host's devices with the rows
    claim    assign devices to a server or its move
    swap     exchange the claims of a server and its move
    release  release devices

A change of a node's devices locks the node's row until the transaction ends, so that two claims cannot take one device.
The pools for schedulers (compute_nodes.pci_stats) are written in the same transaction. A server without devices needs
no statement.
"""
from collections.abc import Mapping, Sequence
import dataclasses
import logging
from typing import Any

import sqlalchemy as sa

from nova import utils
from nova.db import statements
from nova.db.tables import cell as t
from nova.db.tables.rows import PciDevicesRow
from nova.hardware import pci_pools
from nova.objects import pci
from nova.objects.numa import HostTopology

LOG = logging.getLogger(__name__)

_FIELDS = tuple(field.name for field in dataclasses.fields(pci.Device))
_OURS = ('status', 'instance_uuid', 'request_id', 'claimed_by_move')            # fields that only claims set
_LOCK = sa.select(t.compute_nodes.c.id).where(
    t.compute_nodes.c.host == sa.bindparam('key_host'),
    t.compute_nodes.c.node == sa.bindparam('key_node')).with_for_update()
_ON_NODE = sa.select(t.pci_devices).where(
    t.pci_devices.c.host == sa.bindparam('key_host'), t.pci_devices.c.node == sa.bindparam('key_node')).order_by(
    t.pci_devices.c.address)
_SWAP = sa.update(t.pci_devices).where(t.pci_devices.c.instance_uuid == sa.bindparam('key_uuid')).values(
    claimed_by_move=~t.pci_devices.c.claimed_by_move)
_CHANGE = sa.update(t.pci_devices).where(t.pci_devices.c.id == sa.bindparam('key_id'))


def report(conn: sa.Connection, host: str, node: str, devices: Sequence[Mapping[str, Any]]) -> None:
    """Store the devices of a node, a list of dicts with the fields of pci.Device.

    If a device of a guest is missing, its row is kept as 'removed' until the guest releases the device.
    """
    found = {device.address: device for device in _loaded(devices)}
    if _same(_on_node(conn, host, node), found):
        return
    known = _locked(conn, host, node)
    kept = []
    for device in known.values():
        fresh = found.pop(device.address, None)
        if fresh is not None:
            ours = {name: getattr(device, name) for name in _OURS}
            status = pci.CLAIMED if device.status == pci.REMOVED else device.status
            kept.append(dataclasses.replace(fresh, **{**ours, 'status': status}))
        elif device.instance_uuid is not None:
            if device.status != pci.REMOVED:
                LOG.error('PCI device %s of node %s is missing; server %s uses it.', device.address, node,
                          device.instance_uuid)
            kept.append(dataclasses.replace(device, status=pci.REMOVED))
    _write(conn, host, node, known, pci_pools.settled([*kept, *found.values()]))


def claim(conn: sa.Connection, host: str, node: str, requests: list[pci.Request] | tuple[pci.Request, ...],
          instance_uuid: str, claimed_by_move: bool = False, topology: HostTopology | None = None,
          cells: list[int] | None = None) -> bool:
    """Assign devices of a node to a server; return whether the node has the requested devices.

    :param requests: [pci.Request]
    :param claimed_by_move: whether the devices are for a move of the server (server_migrations.hold)
    :param topology: HostTopology, or None for a guest without topology
    :param cells: ids of the guest's cells in this topology
    """
    known = _locked(conn, host, node)
    devices = list(known.values())
    chosen = pci_pools.choose(devices, requests, topology, cells)
    if chosen is None:
        return False
    _write(conn, host, node, known, pci_pools.claim(devices, requests, chosen, instance_uuid, claimed_by_move))
    return True


def release(conn: sa.Connection, host: str, node: str, instance_uuid: str, claimed_by_move: bool | None = None) -> None:
    """Release the devices of a server on a node.

    :param claimed_by_move: True releases only the devices of its move, False only the others
    """
    known = _locked(conn, host, node)
    _write(conn, host, node, known,
           pci_pools.release(list(known.values()), instance_uuid, claimed_by_move=claimed_by_move))


def release_port(conn: sa.Connection, instance_uuid: str, port_id: str) -> None:
    """Release the device of a server's port, on the server's node and on the node that its move has claimed."""
    c = t.pci_devices.c
    places = conn.execute(sa.select(c.host, c.node).where(
        c.instance_uuid == instance_uuid, c.request_id == port_id).distinct().order_by(c.host, c.node)).all()
    for host, node in places:
        known = _locked(conn, host, node)
        _write(conn, host, node, known, pci_pools.release(list(known.values()), instance_uuid, request_id=port_id))


def swap(conn: sa.Connection, instance_uuid: str) -> None:
    """Exchange the claims of a server and its move: each gets the devices of the other."""
    conn.execute(_SWAP, {'key_uuid': instance_uuid})


def forget(conn: sa.Connection, host: str) -> None:
    """Remove the devices of a deleted host, except devices that are assigned to servers."""
    conn.execute(sa.delete(t.pci_devices).where(t.pci_devices.c.host == host, t.pci_devices.c.instance_uuid.is_(None)))


def of_instance(conn: sa.Connection, instance_uuid: str, host: str) -> list[pci.Device]:
    """Return [pci.Device] of a server on its host, without the devices of its move."""
    rows = statements.rows(conn, t.pci_devices, ('address',), instance_uuid=instance_uuid, host=host,
                           claimed_by_move=False)
    return [_device(row) for row in rows]


def without(conn: sa.Connection, host: str, node: str, instance_uuid: str) -> list[dict[str, Any]] | None:
    """Return the pci_stats that a node would have without the assignments of a server."""
    return _stats(pci_pools.release(list(_on_node(conn, host, node).values()), instance_uuid))


def audit(conn: sa.Connection) -> list[dict[str, Any]]:
    """Release devices of deleted servers, and correct pools that differ from the devices.

    If a node differs, it is compared again under its lock. Normally no node differs.
    :returns: [{'host', 'node', 'column', 'was', 'is'}] of the corrections
    """
    nodes = {(row['host'], row['node']): row['pci_stats'] for row in conn.execute(sa.select(
        t.compute_nodes.c.host, t.compute_nodes.c.node, t.compute_nodes.c.pci_stats).where(
        t.compute_nodes.c.pci_stats.is_not(None))).mappings()}
    if not nodes:
        return []
    suspects = {place for place, _ in _lost(conn)}
    rows: dict[tuple[str, str], list[pci.Device]] = {}
    for row in statements.rows(conn, t.pci_devices, ('address',)):
        rows.setdefault((row['host'], row['node']), []).append(_device(row))
    suspects.update(place for place, stats in nodes.items() if stats != _stats(rows.get(place, [])))
    return [each for place in sorted(suspects) for each in _mend(conn, *place)]


def _mend(conn: sa.Connection, host: str, node: str) -> list[dict[str, Any]]:
    known = _locked(conn, host, node)
    mended: list[dict[str, Any]] = []
    devices = list(known.values())
    for _place, device in _lost(conn, host, node):
        assert device.instance_uuid is not None              # _lost returns only devices with a server
        LOG.error('PCI device %s of node %s was assigned to server %s, which does not use it.', device.address, node,
                  device.instance_uuid)
        mended.append({'host': host, 'node': node, 'column': 'pci_devices',
                       'was': f'{device.address} {device.instance_uuid}', 'is': device.address})
        devices = pci_pools.release(devices, device.instance_uuid, claimed_by_move=device.claimed_by_move)
    stats = conn.execute(sa.select(t.compute_nodes.c.pci_stats).where(
        t.compute_nodes.c.host == host, t.compute_nodes.c.node == node)).scalar()
    right = _stats(devices)
    if stats != right and not mended:
        LOG.error('The pools of PCI devices of node %s differed from its devices.', node)
        mended.append({'host': host, 'node': node, 'column': 'pci_stats', 'was': stats, 'is': right})
    if mended:
        _write(conn, host, node, known, devices)
    return mended


def _lost(conn: sa.Connection, host: str | None = None,
          node: str | None = None) -> list[tuple[tuple[str, str], pci.Device]]:
    """Return [((host, node), pci.Device)] of devices assigned to a server or move that has no claim on the node."""
    c, own, move = t.pci_devices.c, t.instances.c, t.migrations.c
    here = sa.exists().where(own.uuid == c.instance_uuid, own.host == c.host, own.node == c.node)
    moving = sa.exists().where(move.instance_uuid == c.instance_uuid, move.claimed_host == c.host,
                               move.claimed_node == c.node)
    statement = sa.select(t.pci_devices).where(
        c.instance_uuid.is_not(None),
        sa.or_(sa.and_(c.claimed_by_move.is_(sa.false()), ~here), sa.and_(c.claimed_by_move.is_(sa.true()), ~moving)))
    if host is not None:
        statement = statement.where(c.host == host, c.node == node)
    return [((row['host'], row['node']), _device(row)) for row in statements.dicts(conn.execute(statement))]


def _locked(conn: sa.Connection, host: str, node: str) -> dict[int, pci.Device]:
    """Return {id of the row: pci.Device} of a node, locked until the transaction ends."""
    if conn.dialect.name != 'sqlite':
        conn.execute(_LOCK, {'key_host': host, 'key_node': node})
    return _on_node(conn, host, node)


def _on_node(conn: sa.Connection, host: str, node: str) -> dict[int, pci.Device]:
    return {row['id']: _device(row) for row in statements.dicts(
        conn.execute(_ON_NODE, {'key_host': host, 'key_node': node}))}


def _write(conn: sa.Connection, host: str, node: str, known: dict[int, pci.Device], devices: list[pci.Device]) -> None:
    """Update the rows of a locked node and its pools, with one statement for each kind of change."""
    now, numbers = utils.utcnow(), {device.address: number for number, device in known.items()}
    fresh, different = [], []
    for device in devices:
        number = numbers.pop(device.address, None)
        if number is None:
            fresh.append({'host': host, 'node': node, 'created_at': now, 'updated_at': now, **_values(device)})
        elif device != known[number]:
            different.append({'key_id': number, 'updated_at': now, **_values(device)})
    if fresh:
        conn.execute(statements.insert(t.pci_devices), fresh)
    if different:
        conn.execute(_CHANGE, different)
    if numbers:
        conn.execute(sa.delete(t.pci_devices).where(t.pci_devices.c.id.in_(numbers.values())))
    statements.update(conn, t.compute_nodes, {'pci_stats': _stats(devices), 'change_number': utils.change_number()},
                      host=host, node=node)


def _stats(devices: list[pci.Device]) -> list[dict[str, Any]] | None:
    """Return the pools in the form of compute_nodes.pci_stats, or None for a node without devices."""
    return pci.dump(pci_pools.pools(devices)) if devices else None


def _same(known: dict[int, pci.Device], found: dict[str, pci.Device]) -> bool:
    """Tell whether the rows match the hardware that the host reports."""
    if len(known) != len(found):
        return False
    for device in known.values():
        ours = {name: getattr(device, name) for name in _OURS}
        fresh = found.get(device.address)
        if device.status == pci.REMOVED or fresh is None or dataclasses.replace(fresh, **ours) != device:
            return False
    return True


def _loaded(devices: Sequence[Mapping[str, Any]]) -> list[pci.Device]:
    return pci.load_devices([{name: value for name, value in device.items() if name in _FIELDS and name not in _OURS}
                             for device in devices])


def _device(row: PciDevicesRow) -> pci.Device:
    columns: Mapping[str, Any] = row
    return pci.Device(**{name: columns[name] for name in _FIELDS})


def _values(device: pci.Device) -> dict[str, Any]:
    return {name: getattr(device, name) for name in _FIELDS}
