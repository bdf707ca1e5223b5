"""Differences between guests and rows, as hosts report them and ``nova-manage state differences`` settles them.

After a database was restored from a backup its rows are older than the guests. Pure: facts in, decisions out.
"""
from __future__ import annotations

import collections.abc
from typing import Any

from nova import states

NEWER = 'newer'              # the host's record of the guest is newer than the server's row
UNKNOWN = 'unknown'          # the host has a guest of a server that has no row
ABSENT = 'absent'            # the row names the host, and the host has no guest
VOLUMES = 'volumes'          # the guest has other volumes than the rows say
KINDS = (NEWER, UNKNOWN, ABSENT, VOLUMES)
MOST = 1000                  # reports of one host; the next ones follow when these are settled

_VM_STATES = {states.RUNNING: states.ACTIVE, states.POWER_PAUSED: states.PAUSED, states.SHUTDOWN: states.STOPPED,
              states.CRASHED: states.STOPPED, states.POWER_SUSPENDED: states.SUSPENDED}
# vm states in which a guest has these power states, too
_FITS = {states.RUNNING: (states.RESCUED, states.RESIZED, states.ACTIVE),
         states.SHUTDOWN: (states.RESIZED, states.SOFT_DELETED, states.SHELVED, states.STOPPED, states.SUSPENDED)}


def vm_state_of(recorded: str | None, power_state: int) -> str:
    """The vm state of a server whose guest has a power state.

    :param recorded: vm state in the host's record, None: it has none
    """
    if recorded in _FITS.get(power_state, ()):
        return str(recorded)
    return _VM_STATES.get(power_state, states.ERROR)


def of_volumes(guest: collections.abc.Mapping[str, Any],
               rows: collections.abc.Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """(ids of volumes that the guest has and no row names, ids of those that rows name and the guest does not have)."""
    return sorted(guest.keys() - rows.keys()), sorted(rows.keys() - guest.keys())


def settlement(kind: str, guests: int) -> str:
    """How a difference is settled, as a sentence.

    :param guests: hosts that report a guest of the server which is newer than its row
    """
    if kind in (NEWER, UNKNOWN) and guests > 1:
        return 'Not settled: several hosts have a guest of it. Remove all but one.'
    return {NEWER: "The row follows the guest: host, state, ports and attachments.",
            UNKNOWN: "The server is entered again, with its project.",
            ABSENT: 'The server becomes ERROR. Delete it if it was deleted after the backup.',
            VOLUMES: 'The attachments become those of the guest.'}[kind]
