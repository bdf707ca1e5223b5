"""[serial_console]: serial consoles."""
from oslo_config import cfg

GROUP = 'serial_console'

OPTIONS = [
    cfg.BoolOpt('enabled', default=False,
                help='Whether users can reach the serial ports of the guests of this host. nova-all enables it by '
                     'default. The output of the first port is always stored as console output. "virsh console" '
                     'works with guests that were started without this option.'),
    cfg.StrOpt('server_listen', default='', max_length=255,
               help='Address of this host on which the serial ports of its guests listen, for a nova-serialproxy '
                    'on another host. The ports have no password, so anyone who reaches the address can type into '
                    'them. Set tls, or use a network that only the proxies can reach. Empty: each port is a socket '
                    'in the directory of its guest, for a proxy on this host.'),
    cfg.StrOpt('port_range', default='10000:20000', regex=r'^[1-9][0-9]{3,4}:[1-9][0-9]{3,4}\Z',
               help='First and last TCP port for serial ports, with server_listen. Each serial port of a guest '
                    'uses one TCP port.'),
    cfg.BoolOpt('tls', default=False,
                help="Whether serial ports accept only TLS, with server_listen. It needs chardev_tls = 1 in "
                     "libvirt's qemu.conf. With chardev_tls_x509_verify = 1 there, clients need a certificate."),
    cfg.StrOpt('base_url', default='', max_length=255,
               help='URL of the serial console proxy for the clients of users. Example: ws://127.0.0.1:6083/. '
                    'Empty: the API offers no serial consoles. nova-all serves them itself.'),
    cfg.HostAddressOpt('serialproxy_host', default='127.0.0.1', help='Address on which nova-serialproxy listens.'),
    cfg.PortOpt('serialproxy_port', default=6083, help='Port on which nova-serialproxy listens. 0 selects a free '
                                                       'port.'),
]
