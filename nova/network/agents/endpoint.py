"""RPC methods for host agents: heartbeat, leases, and the host's network state."""
from typing import Any, TypeVar

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.conf.clients import network as network_options
from nova.context import RequestContext
from nova.db.engine import Database
from nova.db.networks import leases as db_leases
from nova.db.networks import revisions
from nova.json_types import Json
from nova.json_types import JsonObject
from nova.network import gateways
from nova.network import relay_keys
from nova.network.host import load as host_load
from nova.network.host import state as host_state
from nova.network.interface import MAX_LEASES
from nova.network.linux import validators
from nova.objects import guarantees as guarantee_names
from nova.objects import network_info
from nova.runtime import validators as v

T = TypeVar('T')

MAX_PHYSICAL = 64               # maximum physical networks that one host may report
_RELEASE, _LEASES = v.number(0, 1 << 16), v.items(validators.lease, MAX_LEASES)
_AMOUNTS = v.mapping(v.text(r'[^\x00-\x1f]{0,128}', 'a physical network'), v.number(0, network_options.MAX_GUARANTEE))


def _amounts(given: Json) -> dict[str, int]:
    found = _AMOUNTS(given)
    if len(found) > MAX_PHYSICAL:
        raise ValueError(f'guarantees are for more than {MAX_PHYSICAL} physical networks')
    return found


_STATED = v.mapping(v.one_of(*guarantee_names.NAMES), _amounts)


class AgentEndpoint:
    """Serves requests of agents.

    :param api_db: the API database
    :param hosts: gateways.Gateways of the service
    """

    def __init__(self, conf: ConfigOpts, api_db: Database, hosts: gateways.Gateways) -> None:
        self._conf, self._api_db, self._hosts = conf, api_db, hosts
        self._relay_keys: dict[str, relay_keys.RelayKey] = {}

    def report_host(self, context: RequestContext, host: str, address: str, routers: bool,
                    version: int = 0, guarantees: Json = None) -> list[int]:
        """Record a heartbeat and return the revision of the network state.

        :param version: release of the agent; 0: an older agent sends no release
        :param guarantees: see interface.py; None: an older agent
        :raises InvalidInput: invalid address, release or amount
        """
        return self._hosts.report_host(host, _checked(v.address, address), bool(routers), _checked(_RELEASE, version),
                                       _checked(_STATED, {} if guarantees is None else guarantees))

    def report_leases(self, context: RequestContext, host: str, leases: list[Json]) -> None:
        """Record DHCP leases of a host that began, ended or were renewed.

        :raises InvalidInput: the leases are not in the format of interface.py
        """
        self._api_db.run(db_leases.record, host, _checked(_LEASES, leases))

    def host_state(self, context: RequestContext, host: str, physical_networks: dict[str, str], address: str,
                   applied_state: JsonObject | None = None) -> host_state.StateAnswer:
        """Return the network state of a host as JSON (host_state.as_json).

        :param applied_state: see interface.py
        :raises InvalidInput: invalid argument
        """
        if not isinstance(physical_networks, dict) or len(physical_networks) > MAX_PHYSICAL:
            raise exception.InvalidInput(reason=f'physical_networks is not an object of at most {MAX_PHYSICAL} entries')
        keys = self._relay_keys.setdefault(host, relay_keys.RelayKey(self._api_db, host))
        key = keys()
        rest, members = _known(applied_state or {})
        with self._api_db.reader() as conn:
            revision = revisions.current(conn)  # read first: if the state is newer, the next report loads it again
            found: host_state.StateAnswer = {'revision': revision}
            if rest == revision:
                return found
            if rest and rest[0] == revision[0]:
                rules, fresh = host_load.filters(conn, host, members)
                return {**found, 'rules': host_state.rules_as_json(rules), 'members': fresh}
            return {**found, 'state': host_state.as_json(host_load.load(
                conn, host, network_info.devname, physical_networks, _checked(v.address, address), key,
                self._hosts.distributed, move_key=keys.migration_key))}


def _known(given: JsonObject) -> tuple[list[Any], set[str]]:
    """Return (revision, ids of groups) of ``applied_state``, the state that an agent has; ([], set()) if invalid."""
    revision, members = given.get('revision'), given.get('members')
    names = {each for each in members if isinstance(each, str)} if isinstance(members, list) else set()
    if not isinstance(revision, list) or not isinstance(members, list) or len(names) != len(members):
        return [], set()
    return revision, names


def _checked(validator: v.Validator[T], given: Json) -> T:
    try:
        return validator(given)
    except ValueError as error:
        raise exception.InvalidInput(reason=str(error)) from None
