"""Preconditions of actions that need the QEMU guest agent: the image must declare that the agent is installed."""
from oslo_utils import strutils

from nova import actions
from nova import exception
from nova import states
from nova.db.engine import Connection
from nova.db.placement import compute_nodes
from nova.db.tables.rows import InstancesRow
from nova.virt import driver

AGENT, QUIESCE = 'hw_qemu_guest_agent', 'os_require_quiesce'
_COPIES = ('createImage', 'createBackup')
_RUNS = (states.ACTIVE, states.PAUSED)           # a stopped guest needs no quiesce


def check(conn: Connection, row: InstancesRow, action: actions.Action) -> None:
    """Check that the guest has an agent if the action needs one.

    :raises Conflict: the action needs an agent, and the server has none
    """
    required = action.name == 'changePassword' or (
        action.name in _COPIES and _is_set(row, QUIESCE) and row['vm_state'] in _RUNS)
    if not required:
        return
    if not (compute_nodes.capabilities_of(conn, row['host'], row['node']) or {}).get(driver.GUEST_AGENT):
        return
    why = f', and its image has the property {QUIESCE}' if action.name in _COPIES else ''
    if not _is_set(row, AGENT):
        raise exception.Conflict(
            f'The action {action.record} needs the guest agent of server {row["uuid"]}{why}. The image does not '
            f'have {AGENT}=yes: install qemu-guest-agent in the guest, set the property on the image and rebuild the '
            'server, or create a new one.')
    if row['vm_state'] == states.PAUSED:
        raise exception.Conflict(
            f'The action {action.record} needs the guest agent of server {row["uuid"]}{why}. The guest is '
            'paused, so its agent does not respond: unpause or stop the server first.')


def _is_set(row: InstancesRow, name: str) -> bool:
    return bool(strutils.bool_from_string((row['image_properties'] or {}).get(name)))
