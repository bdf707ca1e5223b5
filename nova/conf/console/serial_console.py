"""[serial_console]: serial consoles."""
from oslo_config import cfg

GROUP = 'serial_console'

OPTIONS = [
    cfg.BoolOpt('enabled', default=False,
                help='Whether users reach the serial ports of the guests of this host. nova-all has them unless this '
                     'is set to false. What the first port says is kept as console output either way; "virsh console" '
                     'works with guests that started without.'),
    cfg.StrOpt('server_listen', default='', max_length=255,
               help='Address of this host on which the serial ports of its guests listen, for a nova-serialproxy on '
                    'another one. They ask for no password, so that everybody who reaches this address could type: '
                    'set tls, or take a network that only the proxies reach. Empty: each is a socket in the directory '
                    'of its guest, which a proxy on this host reaches.'),
    cfg.StrOpt('port_range', default='10000:20000', regex=r'^[1-9][0-9]{3,4}:[1-9][0-9]{3,4}\Z',
               help='First and last TCP port for serial ports, with server_listen; each guest takes one a port.'),
    cfg.BoolOpt('tls', default=False,
                help='Whether the serial ports take TLS alone, with server_listen. It needs chardev_tls = 1 in '
                     'qemu.conf of libvirt; with chardev_tls_x509_verify = 1 there, a certificate is required.'),
    cfg.StrOpt('base_url', default='', max_length=255,
               help='Where the clients of users reach the proxy of serial consoles, for example ws://127.0.0.1:6083/. '
                    'Empty: no serial consoles are given out, except by nova-all, which serves them itself.'),
    cfg.HostAddressOpt('serialproxy_host', default='127.0.0.1', help='Address on which nova-serialproxy listens.'),
    cfg.PortOpt('serialproxy_port', default=6083, help='Port on which nova-serialproxy listens. 0 takes a free one.'),
]
