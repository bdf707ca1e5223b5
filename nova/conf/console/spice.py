"""[spice]: SPICE consoles."""
from oslo_config import cfg

GROUP = 'spice'

OPTIONS = [
    cfg.BoolOpt('enabled', default=False,
                help='Whether the guests of this host have a screen and a keyboard over SPICE. They keep that over '
                     'VNC, unless [vnc] enabled is false. It needs a QEMU with SPICE.'),
    cfg.HostAddressOpt('server_listen', default='127.0.0.1',
                       help='Address of this host on which its guests listen for SPICE, each with a password of its '
                            'own. As server_listen of [vnc].'),
    cfg.BoolOpt('tls', default=False,
                help='Whether the guests of this host take TLS alone for SPICE. It needs spice_tls = 1 in qemu.conf of '
                     'libvirt, and the certificates that are named there.'),
    cfg.BoolOpt('password', default=True,
                help='Whether SPICE asks for the password of the guest, which nova-spicehtml5proxy gives. false: for '
                     'consoles of the type spice-direct, whose proxy learns the address of a guest from the compute '
                     'API and no password; then everybody who reaches server_listen is let in.'),
    cfg.StrOpt('html5proxy_base_url', default='', max_length=255,
               help='Where the browsers of users reach the SPICE proxy, for example '
                    'http://127.0.0.1:6082/spice_auto.html. Empty: no SPICE consoles in browsers are given out, '
                    'except by nova-all, which serves them itself.'),
    cfg.HostAddressOpt('html5proxy_host', default='127.0.0.1', help='Address on which nova-spicehtml5proxy listens.'),
    cfg.PortOpt('html5proxy_port', default=6082, help='Port on which nova-spicehtml5proxy listens. 0 is a free one.'),
    cfg.StrOpt('spice_direct_proxy_base_url', default='', max_length=255,
               help='Where the SPICE clients of users reach a proxy that speaks SPICE itself, for example '
                    'http://127.0.0.1:13002/nova (microversion 2.99). Empty: none are given out.'),
]
