"""Network agent of one host. It has no database access and applies the state that the network services send.

If no service answers, bridges, filters, DHCP and routers keep running, and the agent retries.
"""
import logging
import threading
from typing import Protocol

from oslo_config.cfg import ConfigOpts

from nova import context as nova_context
from nova import exception
from nova.json_types import JsonObject
from nova.network import drivers
from nova.network import guarantees
from nova.network.agents.leases import LeaseReports
from nova.network.host import state as host_state
from nova.network.host.state import Lease
from nova.network.host.state import StateAnswer
from nova.network.interface import AGENT
from nova.rpc import admission
from nova.rpc.interface import Methods
from nova.runtime import batching
from nova.runtime import metrics
from nova.runtime import release

LOG = logging.getLogger(__name__)

REPORT_S = 2                    # seconds between heartbeats; a host is down after gateways.DOWN_S without a heartbeat


class Services(Protocol):
    """RPC methods of the network services that an agent calls; see interface.py."""

    def report_host(self, context: nova_context.RequestContext, *, host: str, address: str, routers: bool,
                    version: int, guarantees: guarantees.Stated) -> list[int]: ...

    def host_state(self, context: nova_context.RequestContext, *, host: str, physical_networks: dict[str, str],
                   address: str, applied_state: JsonObject) -> StateAnswer: ...

    def report_leases(self, context: nova_context.RequestContext, *, host: str,
                      leases: list[Lease]) -> None: ...


class NetworkAgent:
    """Agent of one host.

    methods  RPC methods of interface.AGENT

    :param host: name of this host
    :param driver: drivers.load(conf)
    :param services: RPC client that sends as this host
    """

    methods: Methods

    def __init__(self, conf: ConfigOpts, host: str, driver: drivers.NetworkDriver, services: Services) -> None:
        self._conf, self._host, self._driver, self._services = conf, host, driver, services
        self._address = str(conf.network.tunnel_address or conf.my_ip)
        self._apply = batching.CoalescedRun(self._apply_once)
        self._leases = LeaseReports(driver, self._report_leases)
        self._full_state = threading.Event()     # set: the next _follow() requests the full state
        self._check_host = threading.Event()      # set: the next _follow() repairs changes by other programs
        self._revision: list[int] = []      # revision of the applied state; []: unknown
        self._state: host_state.EncodedState | None = None
        self.methods = Methods(AGENT, {'apply_host_state': self.apply_host_state,
                                       'host_state_changed': self.host_state_changed})

    def start(self) -> None:
        """Check the host's prerequisites."""
        self._driver.start()

    def listening(self) -> None:
        """Send the first heartbeat and apply the host's state. If no network service answers, the host stays unchanged.

        Network services may call an agent after its first heartbeat, so the RPC server must already run.
        """
        try:
            self.report()
        except exception.NovaException as error:
            LOG.warning('No network service answers; the network state of this host stays unchanged: %s', error)

    def report(self) -> None:
        """Periodic task: send the heartbeat of this host, and catch up on missed notifications."""
        revision = self._services.report_host(
            nova_context.admin_context(), host=self._host, address=self._address,
            routers=self._conf.network.routers and drivers.forwards(self._driver), version=release.VERSION,
            guarantees=guarantees.stated(self._conf))
        if revision != self._revision:
            self._apply()
        self._leases.report()

    def sync(self) -> None:
        """Periodic task: repair changes that other programs made on the host."""
        self._check_host.set()
        self._full_state.set()
        self._apply()
        self._leases.report(whole=True)

    def _report_leases(self, leases: list[Lease]) -> None:
        self._services.report_leases(nova_context.admin_context(), host=self._host, leases=leases)

    def messages_lost(self) -> None:
        """Discard the applied revision, so that the next report loads the current state."""
        self._revision = []

    def apply_host_state(self, context: nova_context.RequestContext) -> None:
        """Apply the host's state; see interface.py.

        :raises Unavailable: no network service answers
        """
        self._full_state.set()
        self._apply()

    def host_state_changed(self, context: nova_context.RequestContext) -> None:
        """Apply a changed state; see interface.py."""
        self._apply()

    def _apply_once(self) -> None:
        whole, look = self._full_state.is_set(), self._check_host.is_set()
        self._full_state.clear()
        self._check_host.clear()
        try:
            self._follow(whole, look)
        except BaseException:
            self._revision = []             # unknown, so the next report applies the state again
            if look:
                self._check_host.set()
            raise

    def _follow(self, whole: bool, look: bool) -> None:
        # load the state before the driver begins: if no service answers, the host stays unchanged
        applied_state: JsonObject = {}
        if not whole and self._state is not None and self._revision:
            applied_state = {'revision': [*self._revision], 'members': [*sorted(self._state.encoded['members'])]}
        answer = self._services.host_state(
            nova_context.admin_context(), host=self._host, physical_networks=dict(self._conf.network.physical_networks),
            address=self._address, applied_state=applied_state)
        if 'state' in answer:
            state = host_state.EncodedState(answer['state'])
            repaired = self._driver.refresh(state) if look else drivers.follow(self._driver, state)
        elif 'rules' in answer and self._state is not None:
            state = self._state.with_rules(answer['rules'], answer['members'])
            repaired = drivers.refilter(self._driver, state)
        else:
            return
        for kind in repaired:
            metrics.NETWORK_REPAIRS.labels(kind).inc()
        self._revision, self._state = answer['revision'], state


def admission_of_agent(host: str) -> admission.Admission:
    """Return the Admission of a host's agent. A compute host may call only its own agent."""
    def own(call: admission.Call) -> None:
        if call.host != host:
            call.refuse('the caller is on another host')
    return admission.Admission('network_agent', {'apply_host_state': (own,)})
