"""[messages]: whose messages services take."""
from oslo_config import cfg

GROUP = 'messages'

OPTIONS = [
    cfg.StrOpt('signatures', default='accept', choices=['off', 'accept', 'require'],
               help='Whether messages over a broker are signed, with the key of the deployment or of the host. accept: '
                    'they are, and those without a signature are taken and logged: for the time of an upgrade from a '
                    'release that did not sign. require: what is not signed is refused; set it everywhere once '
                    '"nova-manage host keys" shows every host as approved. off: nothing is signed or looked at. '
                    'Inside one process nothing needs a signature.'),
    cfg.StrOpt('join_token_file', default='',
               help='File with the token that "nova-manage host token" has printed: with it a compute host proves once '
                    'that it belongs here, and finds out the same of the control plane. Empty: an operator approves '
                    'the host with "nova-manage host approve", and the host takes the first key of a deployment that '
                    'it is told.'),
]
