"""[metrics]: weighing hosts by what their monitors measure."""
from oslo_config import cfg

GROUP = 'metrics'

OPTIONS = [
    cfg.FloatOpt('weight_multiplier', default=1.0, min=-1000000, max=1000000,
                 deprecated_opts=[cfg.DeprecatedOpt('metrics_weight_multiplier', group='DEFAULT')],
                 help='How much the metrics count in proportion to other weighers. An aggregate\'s metadata '
                      'metrics_weight_multiplier overrides it.'),
    cfg.ListOpt('weight_setting', default=[],
                deprecated_opts=[cfg.DeprecatedOpt('metrics_weight_setting', group='DEFAULT')],
                help='Metrics that are weighed, and what each counts: name1=1.0, name2=-1.0. compute_monitors on the '
                     'hosts measures them.'),
    cfg.BoolOpt('required', default=True,
                deprecated_opts=[cfg.DeprecatedOpt('metrics_weight_required', group='DEFAULT')],
                help='Hosts that do not measure all metrics of weight_setting get no servers, as if MetricsFilter were '
                     'enabled. False: they have the weight weight_of_unavailable.'),
    cfg.FloatOpt('weight_of_unavailable', default=-10000.0, min=-1000000000, max=1000000000,
                 help='Weight of a host that does not measure all metrics of weight_setting, before it is normalized.'),
]
