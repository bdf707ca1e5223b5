"""RPC methods for host agents: heartbeat, leases, and the host's network state."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

from nova import exception
from nova.db.networks import leases as db_leases
from nova.db.networks import revisions
from nova.json_types import Json
from nova.json_types import JsonObject
from nova.network import relay_keys
from nova.network.host import load as host_load
from nova.network.host import state as host_state
from nova.network.interface import MAX_LEASES
from nova.network.linux import validators
from nova.objects import network_info

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts

    from nova.context import RequestContext
    from nova.db.engine import Database
    from nova.network import gateways

MAX_PHYSICAL = 64               # physical networks of one host
MAX_RELEASE = 1 << 16


class AgentEndpoint:
    """Serves requests of agents.

    :param api_db: the API database
    :param hosts: gateways.Gateways of the service
    """

    def __init__(self, conf: ConfigOpts, api_db: Database, hosts: gateways.Gateways) -> None:
        self._conf, self._api_db, self._hosts = conf, api_db, hosts
        self._relay_keys: dict[str, relay_keys.RelayKey] = {}

    def report_host(self, context: RequestContext, host: str, address: str, routers: bool,
                    version: int = 0) -> list[int]:
        """Record a heartbeat and return the revision of the network state.

        :param version: release of the agent; 0: an older agent that sends none
        :raises InvalidInput: invalid address or release
        """
        if type(version) is not int or not 0 <= version <= MAX_RELEASE:
            raise exception.InvalidInput(reason='version is not a release number')
        return self._hosts.report_host(host, _address(address), bool(routers), version)

    def report_leases(self, context: RequestContext, host: str, leases: list[JsonObject]) -> None:
        """Record DHCP leases of a host that began, ended or were renewed.

        :raises InvalidInput: the leases are not in the format of interface.py
        """
        if not isinstance(leases, list) or len(leases) > MAX_LEASES:
            raise exception.InvalidInput(reason=f'leases is not a list of at most {MAX_LEASES} items')
        try:
            rows = [validators.lease(each) for each in leases]
        except ValueError as error:
            raise exception.InvalidInput(reason=str(error)) from None
        self._api_db.run(db_leases.record, host, rows)

    def host_state(self, context: RequestContext, host: str, physical_networks: dict[str, str], address: str,
                   known: JsonObject | None = None) -> host_state.StateAnswer | dict[str, Any]:
        """Return the network state of a host as JSON (host_state.as_json).

        :param known: see interface.py; None: an agent of an older release, which takes only the state
        :raises InvalidInput: invalid argument
        """
        if not isinstance(physical_networks, dict) or len(physical_networks) > MAX_PHYSICAL:
            raise exception.InvalidInput(reason=f'physical_networks is not an object of at most {MAX_PHYSICAL} entries')
        keys = self._relay_keys.setdefault(host, relay_keys.RelayKey(self._api_db, host))
        key = keys()
        rest, members = _known(known or {})
        with self._api_db.reader() as conn:
            revision = revisions.current(conn)              # read first, so that the other data is at least as new
            found: host_state.StateAnswer = {'revision': revision}
            if rest == revision:
                return found
            if rest and rest[0] == revision[0]:
                rules, fresh = host_load.filters(conn, host, members)
                return {**found, 'rules': host_state.rules_as_json(rules), 'members': fresh}
            distributed = bool((known or {}).get('distributed_routers')) and self._hosts.distributed(conn)
            state = host_state.as_json(host_load.load(
                conn, host, network_info.devname, physical_networks, _address(address), key, distributed,
                move_key=keys.migration_key))
        if not (known or {}).get('dns_names'):          # agents of releases that do not send it
            state = host_state.for_older(state)
        if not (known or {}).get('migrations'):
            state = host_state.without_moves(state)
        if not (known or {}).get('domains'):
            state = host_state.without_domains(state)
        return state if known is None else {**found, 'state': state}


def _known(given: JsonObject) -> tuple[list[Any], set[str]]:
    """Return (revision, ids of groups) that an agent has, or empty values if the input is invalid."""
    revision, members = given.get('revision'), given.get('members')
    names = {each for each in members if isinstance(each, str)} if isinstance(members, list) else set()
    if not isinstance(revision, list) or not isinstance(members, list) or len(names) != len(members):
        return [], set()
    return revision, names


def _address(given: Json) -> str:
    try:
        return validators.address(given)
    except ValueError as error:
        raise exception.InvalidInput(reason=str(error)) from None
