"""What tests share with nova/tests/unit/test_libvirt_port_devices.py."""
PORT = '11111111-2222-3333-4444-555555555555'
ADDRESS = '0000:0a:00.1'


def vif(**values):
    return {'id': PORT, 'address': 'fa:16:3e:01:02:03', 'type': 'hw_veb', 'devname': 'tap' + PORT[:11],
            'vnic_type': 'direct', 'details': {'vlan': '100', 'port_filter': False}, 'pci_slot': ADDRESS,
            'network': {'id': 'n', 'bridge': '', 'mtu': 1500, 'subnets': []}, **values}
