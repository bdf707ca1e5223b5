"""Differences between guests and database rows, after the database was restored from a backup.

Hosts report them, and ``nova-manage state differences`` resolves them. This module has no I/O.
"""
from __future__ import annotations

import collections.abc

from nova import states

NEWER = 'newer'              # the host's record of the guest is newer than the server's row
UNKNOWN = 'unknown'          # the host has a guest of a server without a row
ABSENT = 'absent'            # the row names the host, but the host has no guest
VOLUMES = 'volumes'          # the guest's volumes differ from those in the database
KINDS = (NEWER, UNKNOWN, ABSENT, VOLUMES)
MAX_REPORTS = 1000           # maximum unresolved differences that a host reports; further differences follow later

_VM_STATES = {states.RUNNING: states.ACTIVE, states.POWER_PAUSED: states.PAUSED, states.SHUTDOWN: states.STOPPED,
              states.CRASHED: states.STOPPED, states.POWER_SUSPENDED: states.SUSPENDED}
# {power state: recorded vm states that are consistent with it}
_FITS = {states.RUNNING: (states.RESCUED, states.RESIZED, states.ACTIVE),
         states.SHUTDOWN: (states.RESIZED, states.SOFT_DELETED, states.SHELVED, states.STOPPED, states.SUSPENDED)}


def vm_state_of(recorded: str | None, power_state: int) -> str:
    """Return the vm state that a server should have, given the power state of its guest.

    :param recorded: vm state in the host's record, or None
    """
    if recorded in _FITS.get(power_state, ()):
        return str(recorded)
    return _VM_STATES.get(power_state, states.ERROR)


def of_volumes(guest: collections.abc.Collection[str],
               rows: collections.abc.Collection[str]) -> tuple[list[str], list[str]]:
    """Return (ids of the guest's volumes without a row, ids of volumes with a row that are not in the guest)."""
    return sorted({*guest} - {*rows}), sorted({*rows} - {*guest})


def settlement(kind: str, guests: int) -> str:
    """Return a sentence that tells the operator how a difference is resolved.

    :param guests: number of hosts with a guest that is newer than the server's row
    """
    if kind in (NEWER, UNKNOWN) and guests > 1:
        return 'Not settled: several hosts have a guest of this server. Remove all guests but one.'
    return {NEWER: 'Host, state, ports and attachments of the row are set from the guest.',
            UNKNOWN: 'The rows of the server are inserted again, with its project.',
            ABSENT: 'The server gets the state ERROR. Delete the server if a user deleted it after the backup.',
            VOLUMES: 'The attachments in the database are set from the guest.'}[kind]
