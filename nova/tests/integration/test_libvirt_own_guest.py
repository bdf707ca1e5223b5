"""The guest image of the tree applies the documents of its config drive; the same needs as test_libvirt.py."""
import json
import re
import subprocess

from nova.tests.support import libvirt as base
from nova.tests.support import metadata as documents
from nova.virt import metadata

pytestmark = base.pytestmark
state_path, module_rig, rig, instance = base.state_path, base.module_rig, base.rig, base.instance
LAST = rb'guest: user data ended with 0'


def test_the_guest_does_what_its_config_drive_says(rig, instance):
    """It left personality, static addresses, vendor data and the password of the config drive alone."""
    vif = rig.vif()
    described = {**documents.interface(documents.subnet(4), documents.subnet(6), domain='blue.example'),
                 'address': vif['address']}
    meta_data = {'uuid': instance.uuid, 'hostname': 'my-name.blue.example', 'admin_pass': 'my "secret"',
                 'files': [{'path': '/etc/deep/motd', 'content_path': '/content/0000'}]}
    base.spawn(rig, instance, network_info=[vif], config_drive={
        'openstack/latest/meta_data.json': json.dumps(meta_data, indent=1).encode(),
        'openstack/latest/network_data.json': json.dumps(metadata.network_data([described])).encode(),
        'openstack/latest/vendor_data.json': json.dumps({
            'cloud-init': '#!/bin/sh\necho vendor-$((40 + 2))\n'}).encode(),
        'openstack/latest/vendor_data2.json': json.dumps({'cloud-init': '#cloud-config\n{}\n'}).encode(),
        'openstack/latest/user_data': b'#!/bin/sh\necho "file: $(cat /etc/deep/motd)"; ip -4 -o address show dev eth0\n'
                                      b'ip -6 -o address show dev eth0; ip route; ip -6 route; cat /etc/resolv.conf\n'
                                      b'grep ^root /etc/passwd; cat /sys/class/net/eth0/mtu\n',
        'openstack/content/0000': b'hello'})
    base.wait_for(lambda: LAST in rig.console(instance), base.BOOT_SECONDS, 'the end of the user data')
    said = rig.console(instance).decode(errors='replace')
    for expected in ('address 10.0.0.5', 'name my-name', 'file: hello', 'inet 10.0.0.5/24', 'inet6 fd00::5/64',
                     'default via 10.0.0.1', '10.9.0.0/16 via 10.0.0.3', 'default via fd00::1', 'search blue.example',
                     'nameserver 10.0.0.2', '\n1400', 'vendor-42', 'vendor data is not a script',
                     'the password is set'):
        assert expected in said, (expected, said[-3000:])
    found = re.search(r'root:(\$6\$([^$]+)\$[^:]+):', said)
    made = subprocess.run(['openssl', 'passwd', '-6', '-salt', found[2], 'my "secret"'], check=True,
                          capture_output=True, text=True)
    assert made.stdout.strip() == found[1]
