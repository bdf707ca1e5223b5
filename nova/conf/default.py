"""[DEFAULT]: options of every service."""
import socket

from oslo_config import cfg

GROUP = None

OPTIONS = [
    cfg.HostAddressOpt('my_ip', default='127.0.0.1',
                       help='Address of this host, as other hosts reach it.'),
    cfg.StrOpt('host', default=socket.gethostname(), sample_default='the name of this host', max_length=255,
               help='Name of this host in the service list and in queue names. It must be unique.'),
    cfg.IntOpt('report_interval', default=10, min=1, max=3600,
               help='Seconds between two heartbeats of a service.'),
    cfg.IntOpt('service_down_time', default=60, min=2, max=86400,
               help='Seconds without a heartbeat after which a service counts as down. Use a multiple of '
                    'report_interval, so that one late heartbeat has no effect.'),
    cfg.IntOpt('graceful_shutdown_timeout', default=60, min=0, max=3600, mutable=True,
               help='Seconds that a stopping service waits for its operations to finish. 0 does not wait.'),
    cfg.StrOpt('default_availability_zone', default='nova', max_length=255,
               help='Availability zone of compute hosts that are in no aggregate with a zone.'),
    cfg.StrOpt('internal_service_availability_zone', default='internal', max_length=255,
               help='Availability zone shown for services other than nova-compute.'),
    cfg.StrOpt('default_schedule_zone', max_length=255, mutable=True,
               help='Availability zone of servers that request none. Empty: any zone.'),
]

CLI_OPTIONS = [
    cfg.StrOpt('state-path', default=None,
               help='Directory of all persistent data of this deployment: databases, images, guests. Default: '
                    '/var/lib/nova for root, ~/.local/share/nova for other users.'),
]
