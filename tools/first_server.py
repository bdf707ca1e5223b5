"""The first server of tools/quickstart.sh: its image, key pair and open ports, until it answers; one process does all.
And a network to the outside, so that users can make routers and floating addresses (doc/source/user/networks.rst).

usage: first_server.py DRIVER DIRECTORY OUTSIDE        OS_CLOUD and OS_CLIENT_CONFIG_FILE name the cloud

OUTSIDE is the range of floating addresses. Leaves the server's address in DIRECTORY/first-server.done. What an earlier
run has made is used again.
"""
import contextlib
import pathlib
import shutil
import subprocess
import sys
import time

import openstack
from openstack import exceptions

from steps import step

NAME = 'first'
FLAVOR = 'm1.tiny'
OUTSIDE = 'public'
OPEN = ({'protocol': 'icmp'}, {'protocol': 'tcp', 'port_range_min': 22, 'port_range_max': 22})
ACTIVE_S, CONSOLE_S, DELETED_S, PINGS = 600, 240, 120, 10
POLL_S = 0.2
ERRORS = (RuntimeError, OSError, subprocess.CalledProcessError, exceptions.SDKException)


class FirstServer:
    """
    cloud      openstacksdk connection of the administrator
    driver     fake or libvirt
    directory  of the image, the key and the note that the server is there
    outside    range of the floating addresses, CIDR
    """

    def __init__(self, cloud, driver, directory, outside):
        self.cloud, self.driver, self.directory, self.outside = cloud, driver, directory, outside

    def make(self):
        """All steps that are not done; the server's address.

        :raises SystemExit: a step failed
        """
        image = self._step('Image', self._image)
        key = self._step('Key pair', self._key_pair) if shutil.which('ssh-keygen') else None
        self._step('Security group: ping and ssh may come in', self._open)
        server = self._step(f"Server '{NAME}' until ACTIVE", self._boot, image, key)
        address = next(iter(server.addresses.values()))[0]['addr']
        self._step(f"Network '{OUTSIDE}': routers and floating addresses", self._outside)
        if self.driver == 'libvirt':
            self._step('Its console says that it has booted', self._console, server)
            self._step(f'Ping {address}', _ping, address)
        return address

    def _step(self, what, function, *arguments):
        return step(what, function, *arguments, errors=ERRORS)

    def _image(self):
        found = self.cloud.image.find_image('guest')
        if found is not None and found.status == 'active':
            return found
        contents = {'data': bytes(1 << 20), 'disk_format': 'raw'}
        if self.driver == 'libvirt':
            contents = {'filename': str(self.directory / 'guest' / 'guest.qcow2'), 'disk_format': 'qcow2'}
        return self.cloud.create_image('guest', container_format='bare', visibility='public', wait=True,
                                       validate_checksum=False, **contents)

    def _key_pair(self):
        file = self.directory / 'first_key'
        if not file.exists():
            subprocess.run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-C', NAME, '-f', file], check=True)
        return self.cloud.compute.find_keypair(NAME) or self.cloud.compute.create_keypair(
            name=NAME, public_key=file.with_suffix('.pub').read_text())

    def _open(self):
        network = self.cloud.network
        group = next(network.security_groups(project_id=self.cloud.current_project_id, name='default'))
        for rule in OPEN:
            with contextlib.suppress(exceptions.ConflictException):             # an earlier run has made it
                network.create_security_group_rule(security_group_id=group.id, direction='ingress', ether_type='IPv4',
                                                   remote_ip_prefix='0.0.0.0/0', **rule)

    def _outside(self):
        """Where the operator has made one already, it stays the only one."""
        network = self.cloud.network
        if next(network.networks(is_router_external=True), None) is None:
            made = network.create_network(name=OUTSIDE, is_router_external=True)
            network.create_subnet(name=OUTSIDE, network_id=made.id, ip_version=4, cidr=self.outside,
                                  is_dhcp_enabled=False)

    def _boot(self, image, key):
        compute = self.cloud.compute
        server = compute.find_server(NAME)
        if server is not None:
            server = compute.get_server(server.id)
            if server.status == 'ACTIVE':
                return server
            compute.delete_server(server)
            compute.wait_for_delete(server, interval=POLL_S, wait=DELETED_S)
        server = compute.create_server(
            name=NAME, image_id=image.id, flavor_id=compute.find_flavor(FLAVOR, ignore_missing=False).id,
            networks='auto', **({'key_name': key.name} if key else {}))
        try:
            return compute.wait_for_server(server, interval=POLL_S, wait=ACTIVE_S)
        except exceptions.ResourceFailure:
            fault = compute.get_server(server.id).fault or {}
            raise RuntimeError(f"the server is in ERROR: {fault.get('message', 'it has no fault')}") from None

    def _console(self, server):
        deadline = time.monotonic() + CONSOLE_S
        while time.monotonic() < deadline:
            text = self.cloud.compute.get_server_console_output(server)['output'] or ''
            if any(line.startswith('guest ready') for line in text.splitlines()):
                return
            time.sleep(POLL_S)
        raise RuntimeError(f'no line of its console began with "guest ready" within {CONSOLE_S} s')


def _ping(address):
    for _ in range(PINGS):
        if subprocess.run(['ping', '-c', '1', '-W', '2', address], stdout=subprocess.DEVNULL).returncode == 0:
            return
    raise RuntimeError(f'{PINGS} pings were not answered')


def main():
    driver, directory, outside = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    address = FirstServer(openstack.connect(), driver, directory, outside).make()
    (directory / 'first-server.done').write_text(address + '\n')


if __name__ == '__main__':
    main()
