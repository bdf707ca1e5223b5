"""[monitoring]: where a daemon serves its metrics and its health."""
from oslo_config import cfg

GROUP = 'monitoring'

OPTIONS = [
    cfg.BoolOpt('enabled', default=True,
                help='Whether to serve /metrics for Prometheus, /healthz and /readyz on a separate address.'),
    cfg.HostAddressOpt('listen', default='127.0.0.1',
                       help='Address to listen on. Metrics need no token, so choose an address of the management '
                            'network. The reasons for a failed /healthz or /readyz are shown only to clients on '
                            'this host.'),
    cfg.PortOpt('port', min=0, sample_default='one for each kind of daemon',
                help='Port to listen on. Default: nova-all 9770, nova-api 9771, nova-compute 9772, nova-conductor '
                     '9773, nova-network 9774, nova-scheduler 9775, nova-api-metadata 9776, nova-api-ec2 9777, '
                     'nova-volume 9778, nova-cert 9779, nova-objectstore 9780. Several daemons of one kind on a '
                     'host need different ports. 0 selects a free port.'),
    cfg.IntOpt('server_series', default=0, min=0, max=10000,
               help='Number of servers of a host whose CPU, memory, disk and network counters are in /metrics of '
                    'nova-compute: ten series each, with the id of the server as a label. Further servers, in the '
                    'order of their ids, are left out. Off by default, because metrics need no token and Prometheus '
                    'keeps each series.'),
]
