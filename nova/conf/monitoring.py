"""[monitoring]: where a daemon serves its metrics and its health."""
from oslo_config import cfg

GROUP = 'monitoring'

OPTIONS = [
    cfg.BoolOpt('enabled', default=True,
                help='Serve /metrics for Prometheus, and /healthz and /readyz, on an address of its own.'),
    cfg.HostAddressOpt('listen', default='127.0.0.1',
                       help='Address to listen on. Who reaches it reads numbers without a token, so give it one of the '
                            'management network; the reasons of /healthz and /readyz are shown on this host alone.'),
    cfg.PortOpt('port', min=0, sample_default='one for each kind of daemon',
                help='Port to listen on. Default: nova-all 9770, nova-api 9771, nova-compute 9772, nova-conductor '
                     '9773, nova-network 9774, nova-scheduler 9775, nova-api-metadata 9776, nova-api-ec2 9777, '
                     'nova-volume 9778, nova-cert 9779, nova-objectstore 9780; several of a kind on one host need '
                     'one each. 0 takes a free one.'),
]
