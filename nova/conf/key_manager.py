"""[key_manager]: the embedded key manager."""
from oslo_config import cfg

GROUP = 'key_manager'

OPTIONS = [
    cfg.BoolOpt('enabled', default=True,
                help='Whether nova-all serves the Key Manager API below /key-manager, with an entry in the catalog. '
                     'Set it to false if the deployment has another Key Manager service. Keys of encrypted disks and '
                     'volumes do not depend on it.'),
    cfg.IntOpt('secrets', default=10000, min=-1, max=2147483647,
               help='Maximum number of secrets of a project, and likewise of its containers, orders and consumers. '
                    '-1: no limit. A secret needs up to 40 KB of the database. Limits of single projects are set with '
                    'PUT /v1/project-quotas/{project_id}.'),
    cfg.StrOpt('policy_file', default='key_manager_policy.yaml', max_length=4096,
               help='Policy file of the Key Manager API, absolute or in a configuration directory. Changes take effect '
                    'within seconds. It is separate because rules such as admin have a meaning of their own in each '
                    'API. The default file need not exist.'),
]
