"""Third-party weighers that evaluate one host at a time.

If a plugin fails, the scheduler logs the error and ignores the weigher for this decision, so that the request does not
fail.
"""
import dataclasses
import inspect
import logging
import types
import typing

import numpy as np
from oslo_config import cfg

from nova.scheduler import host_view
from nova.scheduler.filters import plugins
from nova.scheduler.placement_request import RequestView

LOG = logging.getLogger(__name__)


@dataclasses.dataclass
class WeighedHost:
    """Host that a plugin weighs: ``obj`` is the host_state, and only plugins use ``weight``."""

    obj: types.SimpleNamespace
    weight: float = 0.0


class BaseHostWeigher:
    """Base class of weighers that evaluate one host at a time.

    A subclass overrides ``weight_object`` or ``weight_objects``, or the older ``_weigh_object`` or ``weigh_objects``.
    """

    _weigh_object: typing.Callable[[typing.Any, plugins.Properties], float]        # method of older plugins

    def weight_multiplier(self) -> float:
        """Return the multiplier of the normalised weights. An override may have the host_state as a parameter."""
        return 1.0

    def weight_object(self, host_state: types.SimpleNamespace, weight_properties: plugins.Properties) -> float:
        """Return the weight of one host; a larger weight is better.

        :param host_state: see filters.attributes
        """
        raise NotImplementedError

    def weight_objects(self, weighed_obj_list: list[WeighedHost], weight_properties: plugins.Properties
                       ) -> list[float]:
        """Return a list with the weight of each host.

        :param weighed_obj_list: [WeighedHost]
        """
        one = self._weigh_object if hasattr(self, '_weigh_object') else self.weight_object
        return [one(weighed.obj, weight_properties) for weighed in weighed_obj_list]


class PerHost:
    """Adapter of a BaseHostWeigher to the interface of Weigher."""

    multiplier = 1.0         # dry runs show this value, but ``weigh`` uses the multiplier of the plugin

    def __init__(self, conf: cfg.ConfigOpts, wrapped: BaseHostWeigher) -> None:
        self._conf = conf
        self._wrapped: typing.Any = wrapped          # Any: a plugin may have methods of older interfaces

    @property
    def name(self) -> str:
        return type(self._wrapped).__name__

    def weigh(self, hosts: host_view.Hosts, positions: np.ndarray) -> tuple[float | np.ndarray, np.ndarray | None]:
        """Return (multiplier, values) at the positions; values are None if the plugin failed."""
        states = list(plugins.states_of(hosts, positions))
        assert isinstance(hosts, RequestView)    # only a RequestView has the request, which plugins need
        try:
            values = np.asarray(self._values(states, plugins.properties(self._conf, hosts.request)), dtype=np.float64)
            multiplier = self._multiplier(states)
        except Exception as error:
            LOG.exception('Weigher %s failed and is ignored: %s', self.name, error)
            return 0.0, None
        if values.shape != (len(positions),) or not np.isfinite(values).all():
            LOG.error('Weigher %s did not return a number for each host and is ignored.', self.name)
            return 0.0, None
        return multiplier, values

    def _values(self, states: list[typing.Any], properties: plugins.Properties) -> list[float]:
        weighed = [WeighedHost(state) for state in states]
        if hasattr(self._wrapped, 'weigh_objects'):
            return list(self._wrapped.weigh_objects(weighed, properties))
        return list(self._wrapped.weight_objects(weighed, properties))

    def _multiplier(self, states: list[typing.Any]) -> float | np.ndarray:
        method = self._wrapped.weight_multiplier
        if not callable(method):
            return float(method)
        if inspect.signature(method).parameters:
            return np.array([method(state) for state in states], dtype=float)
        return float(method())
