"""The host's switchover process (nova/network/switchover.py), and the FDB entries that it has switched."""
import dataclasses
import json
import socket

from nova.json_types import Json
from nova.network import switchover
from nova.network.host.state import HostState
from nova.network.host.state import Overlay
from nova.network.linux import frames
from nova.network.linux import process
from nova.network.linux import runner

MAX_GUESTS = 200        # maximum number of guests for which conntrack entries are copied


class SwitchoverProcess:
    """Controls the switchover process of one host: it runs while a guest in an overlay network migrates.

    process  ControlledProcess

    :param run: a Runner of the host
    """

    def __init__(self, run: runner.Runner) -> None:
        self.process = process.ControlledProcess(run, 'process that follows guests', ('-I', '-S', switchover.__file__))
        self._expected: dict[str, dict[str, str]] = {}       # {device: {MAC: address of the target host}}
        self._switched: dict[str, dict[str, str]] = {}
        self._flows: list[Json] = []

    def hand_over_connections(self, state: HostState) -> None:
        """Make the process copy the conntrack entries of guests that migrate in overlay networks."""
        overlays = {overlay.bridge: overlay for overlay in state.overlays}
        wanted: list[Json] = [*[dataclasses.asdict(switchover.MigratingGuest(
            state.tunnel, port.migration[0], port.incoming, port.migration[1], overlays[port.bridge].number,
            port.addresses, frames.tunnel_name(overlays[port.bridge]), port.mac))
            for port in state.ports if port.migration and port.bridge in overlays and state.tunnel][:MAX_GUESTS]]
        if wanted == self._flows and (self.process.is_alive() or not wanted):
            return
        self._flows = wanted
        if wanted and not self.process.is_alive():
            self._begin()
        else:
            self.process.send({'flows': wanted})

    def expect(self, overlay: Overlay) -> None:
        """Make the process switch the FDB entries of migrating guests that RARP announces; forget other guests."""
        device, moving = frames.tunnel_name(overlay), dict(overlay.migrating[:switchover.MAX_MOVING])
        if overlay.vlan is not None or self.process.is_alive() and self._expected.get(device, {}) == moving:
            return
        switched = self.switched(device)
        self._switched[device] = {mac: address for mac, address in switched.items() if moving.get(mac) == address}
        self._expected[device] = moving
        if moving and not self.process.is_alive():
            self._begin()
        else:
            self._send_expected(device)

    def _begin(self) -> None:
        self.process.start()
        for each in self._expected:
            self._send_expected(each)
        self.process.send({'flows': self._flows})

    def switched(self, device: str) -> dict[str, str]:
        """Return {MAC: address} of expected guests, if their FDB entries are switched or are about to be switched."""
        while self.process.control is not None:
            try:
                text = self.process.control.recv(switchover.MESSAGE, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except OSError:
                text = b''
            if not text:
                self.process.stop()
                break
            name, mac, address = json.loads(text)
            if self._expected.get(name, {}).get(mac) == address:
                self._switched.setdefault(name, {})[mac] = address
        return dict(self._switched.get(device, {}))

    def retain(self, devices: set[str]) -> None:
        """Forget all devices except these. Stop the process if no migration is in progress."""
        for device in self._expected.keys() - devices:
            self._expected[device] = {}
            self._send_expected(device)
            del self._expected[device]
            self._switched.pop(device, None)
        if not any(self._expected.values()) and not self._flows:
            self.stop()

    def stop(self) -> None:
        """Stop the process."""
        self.process.stop()

    def _send_expected(self, device: str) -> None:
        moving = {mac: address for mac, address in self._expected[device].items()
                  if mac not in self._switched.get(device, {})}
        self.process.send({'device': device, 'moving': [[mac, address] for mac, address in moving.items()]})
