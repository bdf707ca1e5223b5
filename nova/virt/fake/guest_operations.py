"""Features that operate on a running fake guest or read its state."""
import hashlib
import secrets
import zlib

from nova import states
from nova.objects.instance import Instance
from nova.virt import driver
from nova.virt.fake.machine import Machine

MIB = 1024 * 1024
# First TCP port of each console type; below the kernel's ephemeral ports and the ports of servers in tests
CONSOLE_PORTS = {'vnc': 5900, 'spice': 15900, 'serial': 25900, 'mks': 26900}
PORTS = 1000                 # number of ports for each kind of console
SCREEN = (64, 48)            # width and height in pixels


class GuestOperations:
    """Password, Quiesce, CrashDump, Diagnostics, Consoles and Screenshots of simulated guests.

    :param address: address of the host, at which its consoles are reached
    """

    def __init__(self, machine: Machine, address: str) -> None:
        self.machine, self._address = machine, address

    def set_admin_password(self, instance: Instance, password: str) -> None:
        with self.machine.change('set_admin_password'):
            self.machine.guest(instance)['password'] = hashlib.sha256(password.encode()).hexdigest()

    def quiesce(self, instance: Instance) -> None:
        self._set_rest('quiesce', instance, True)

    def unquiesce(self, instance: Instance) -> None:
        self._set_rest('unquiesce', instance, False)

    def _set_rest(self, operation: str, instance: Instance, rests: bool) -> None:
        with self.machine.change(operation):
            self.machine.guest(instance)['rests'] = rests

    def trigger_crash_dump(self, instance: Instance) -> None:
        """Simulate a memory dump and a restart of the guest."""
        with self.machine.operation('trigger_crash_dump'), self.machine.lock:
            guest = self.machine.guest(instance)
            guest['dumps'] = guest.get('dumps', 0) + 1
            self.machine.set_state(instance, guest['power_state'], 'kernel crashed, memory dumped')

    def diagnostics(self, instance: Instance) -> driver.GuestDiagnostics:
        with self.machine.operation('diagnostics'):
            guest = self.machine.guest(instance)
            lines = len(guest['console'])
            disks = 1 + bool(instance.ephemeral_gb)
            return {
                'hypervisor': 'fake', 'hypervisor_os': 'linux', 'uptime': lines,
                'cpu_details': [{'id': number, 'time': lines * 10 ** 9, 'utilisation': 0}
                                for number in range(instance.vcpus)],
                'disk_details': [{'read_bytes': lines * MIB, 'read_requests': lines, 'write_bytes': lines * MIB,
                                  'write_requests': lines, 'errors_count': 0} for _ in range(disks)],
                'nic_details': [{
                    'mac_address': vif['address'], 'rx_octets': lines * 1000, 'rx_errors': 0, 'rx_drop': 0,
                    'rx_packets': lines, 'rx_rate': None, 'tx_octets': lines * 1000, 'tx_errors': 0, 'tx_drop': 0,
                    'tx_packets': lines, 'tx_rate': None} for vif in instance.network_info],
                'memory_details': {'maximum': instance.memory_mb,
                                   'used': instance.memory_mb if guest['power_state'] == states.RUNNING else 0}}

    def console(self, instance: Instance, kind: str) -> driver.ConsolePlace:
        with self.machine.operation('console'):
            self.machine.guest(instance)
            number = zlib.crc32(instance.uuid.encode()) % PORTS
            port = CONSOLE_PORTS[kind] + number
            return {'host': self._address, 'port': port, 'tls_port': port + 1 if kind == 'spice' else None,
                    'internal_access_path': instance.uuid if kind == 'mks' else None,
                    'password': secrets.token_urlsafe(6) if kind in ('vnc', 'spice') else None}

    def screenshot(self, instance: Instance) -> bytes:
        """Return a screen of one colour derived from the server's id."""
        with self.machine.operation('screenshot'):
            self.machine.guest(instance)
            colour = hashlib.sha256(instance.uuid.encode()).digest()[:3]
            width, height = SCREEN
            return b'P6\n%d %d\n255\n' % SCREEN + colour * (width * height)
