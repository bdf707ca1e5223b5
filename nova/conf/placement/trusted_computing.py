"""[trusted_computing]: the attestation service that TrustedFilter asks."""
from oslo_config import cfg

GROUP = 'trusted_computing'

OPTIONS = [
    cfg.HostAddressOpt('attestation_server',
                       help='Host name of the attestation service, which verifies the integrity of compute hosts. '
                            'Empty: no service, so TrustedFilter rejects every server that requires a trust level.'),
    cfg.PortOpt('attestation_port', default=8443, help='HTTPS port of the attestation service.'),
    cfg.StrOpt('attestation_server_ca_file', max_length=4096,
               help='CA certificates (PEM) that verify the attestation service. Empty: the CAs of the system.'),
    cfg.StrOpt('attestation_api_url', default='/OpenAttestationWebServices/V1.0', max_length=255,
               help='Prefix of the API paths of the attestation service.'),
    cfg.StrOpt('attestation_auth_blob', secret=True, max_length=4096,
               help='Credential of this scheduler at the attestation service, sent as the header x-auth-blob.'),
    cfg.IntOpt('attestation_auth_timeout', default=60, min=1, max=86400,
               help='Seconds for which a response of the attestation service is valid.'),
    cfg.BoolOpt('attestation_insecure_ssl', default=False,
                help='Do not verify the certificate of the attestation service. An attacker on the network can '
                     'then report any host as trusted.'),
]
