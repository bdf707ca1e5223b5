"""systemd-networkd as the client of DHCPv6 in a guest's namespace, where nothing else of the machine sees it."""
import os
import pathlib
import subprocess
import time

PATH = '/usr/lib/systemd/systemd-networkd'
# It has a /run of its own. A /sys that may only be read tells it that no udev is there to wait for.
SCRIPT = f'''set -e
mount -t tmpfs tmpfs /run
mount -o remount,ro /sys
mkdir -p /run/systemd/network
install -d -o systemd-network -g systemd-network /run/systemd/netif
cat >/run/systemd/network/10-eth0.network <<TEXT
[Match]
Name=eth0
[Network]
DHCP=ipv6
IPv6AcceptRA=yes
[IPv6AcceptRA]
UseDomains=yes
TEXT
exec {PATH}
'''


class Client:
    """A client that runs until the end of the ``with``.

    :param space: name of the namespace, whose device is eth0
    """

    def __init__(self, space):
        self._process = subprocess.Popen(['ip', 'netns', 'exec', space, 'unshare', '-m', 'sh', '-c', SCRIPT],
                                         stderr=subprocess.PIPE)
        self._links = pathlib.Path(f'/proc/{self._process.pid}/root/run/systemd/netif/links')

    def name_servers(self, seconds=20):
        """[address] that the client was told, sorted; [] when none came in time."""
        return self._received('DNS', seconds)

    def domains(self, seconds=20):
        """[search domain] that the client was told, sorted; [] when none came in time."""
        return self._received('DOMAINS', seconds)

    def _received(self, kind, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for name in os.listdir(self._links) if self._links.is_dir() else ():
                for line in (self._links / name).read_text().splitlines():
                    if line.startswith(f'{kind}=') and line != f'{kind}=':
                        return sorted(set(line.removeprefix(f'{kind}=').split()))      # by DHCPv6 and by advertisements
            time.sleep(.1)
        return []

    def __enter__(self):
        return self

    def __exit__(self, *_args):
        self._process.terminate()
        said = self._process.communicate(timeout=10)[1].decode()
        print(said)                          # with a failure
