"""[metrics]: weighing hosts by what their monitors measure."""
from oslo_config import cfg

GROUP = 'metrics'

OPTIONS = [
    cfg.FloatOpt('weight_multiplier', default=1.0, min=-1000000, max=1000000,
                 deprecated_opts=[cfg.DeprecatedOpt('metrics_weight_multiplier', group='DEFAULT')],
                 help='Multiplier of the metrics weight relative to other weighers. The metadata '
                      'metrics_weight_multiplier of an aggregate overrides it.'),
    cfg.ListOpt('weight_setting', default=[],
                deprecated_opts=[cfg.DeprecatedOpt('metrics_weight_setting', group='DEFAULT')],
                help='Metrics to weigh and their factors: name1=1.0, name2=-1.0. The monitors in compute_monitors '
                     'on the hosts measure them.'),
    cfg.BoolOpt('required', default=True,
                deprecated_opts=[cfg.DeprecatedOpt('metrics_weight_required', group='DEFAULT')],
                help='Whether hosts that lack a metric of weight_setting are excluded, as if MetricsFilter were '
                     'enabled. False: such hosts get weight_of_unavailable.'),
    cfg.FloatOpt('weight_of_unavailable', default=-10000.0, min=-1000000000, max=1000000000,
                 help='Weight, before normalization, of a host that lacks a metric of weight_setting.'),
]
