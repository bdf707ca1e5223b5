"""[upgrade_levels]: RPC versions for services of an older release; see doc/source/admin/upgrades.rst."""
from oslo_config import cfg

GROUP = 'upgrade_levels'


def _level(topic: str) -> cfg.Opt:
    return cfg.StrOpt(topic, default='auto', mutable=True, max_length=16, help=(
        f'Newest version of the {topic} RPC interface to send, like 1.0. auto: the newest version that the oldest '
        f'running {topic} service supports. Set a version only if the service records are unreliable, for example '
        'after a database was restored.'))


OPTIONS = [_level('compute'), _level('conductor'), _level('scheduler'), _level('network'),
           _level('network_agent'), _level('cert')]
