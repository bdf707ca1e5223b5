"""[trusted_computing]: the attestation service that TrustedFilter asks."""
from oslo_config import cfg

GROUP = 'trusted_computing'

OPTIONS = [
    cfg.HostAddressOpt('attestation_server',
                       help='Host that vouches for the integrity of compute hosts. Empty: none, so that TrustedFilter '
                            'lets no server through that asks for a level.'),
    cfg.PortOpt('attestation_port', default=8443, help='Its HTTPS port.'),
    cfg.StrOpt('attestation_server_ca_file', max_length=4096,
               help='PEM file of the authorities that may vouch for it. Empty: those of this system.'),
    cfg.StrOpt('attestation_api_url', default='/OpenAttestationWebServices/V1.0', max_length=255,
               help='First part of the paths of its API.'),
    cfg.StrOpt('attestation_auth_blob', secret=True, max_length=4096,
               help='What it knows this scheduler by; sent as the header x-auth-blob.'),
    cfg.IntOpt('attestation_auth_timeout', default=60, min=1, max=86400,
               help='Seconds that an answer of it counts.'),
    cfg.BoolOpt('attestation_insecure_ssl', default=False,
                help='Do not check its certificate. An attacker on the network can then report any host as trusted.'),
]
