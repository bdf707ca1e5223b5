"""Filters that operators write: their method ``host_passes(host_state, filter_properties)`` judges one host.

A failing plugin is a fault of the deployment, not of the request. The failure is logged and the host does not pass,
because the plugin might have refused the host.
"""
import collections.abc
import inspect
import logging
import types
import typing

import numpy as np

from oslo_config import cfg

from nova import context
from nova import objects
from nova.db import engine
from nova.json_types import JsonObject
from nova.db.placement import hosts as hosts_db
from nova.scheduler import host_view
from nova.scheduler.filters import attributes
from nova.scheduler.filters import base
from nova.scheduler.placement_request import Request

LOG = logging.getLogger(__name__)

# names of the second parameter with which a plugin's ``host_passes`` requests an objects.RequestSpec
_SPEC = ('spec', 'spec_obj', 'request_spec')
_LISTS = ('group', 'different_host')

Servers = dict[tuple[str, str], dict[str, bool]]         # {(host, node): {uuid of a server: True}}


# data of a request for plugins; instance_type is the flavor, values of scheduler_hints are strings or lists
Properties = typing.TypedDict('Properties', {
    'context': context.RequestContext, 'request_spec': dict[str, typing.Any], 'instance_type': dict[str, typing.Any],
    'instance_uuids': list[str], 'scheduler_hints': JsonObject, 'config_options': dict[str, str], 'project_id': str,
    'os_type': str | None, 'force_hosts': list[str], 'force_nodes': list[str], 'ignore_hosts': list[str],
    'retry': JsonObject, 'group_hosts': set[str], 'limits': dict[str, float], 'group_policies': set[str],
    'pci_requests': None})


class BaseHostFilter:
    """Base class of filters written for single hosts.

    needs_instances   whether to set ``host_state.instances``, {uuid: True} of the servers on the host, at the cost of a
                      query of all servers for each request
    RUN_ON_REBUILD    whether the filter also runs when a server is rebuilt from another image on its host
    """

    needs_instances = False
    RUN_ON_REBUILD = True

    def host_passes(self, host_state: types.SimpleNamespace, filter_properties: Properties) -> bool:
        """Tell whether the host may take the server.

        :param host_state: attributes.ATTRIBUTES, and ``aggregates``, ``metrics``, ``limits`` and ``instances``
        """
        raise NotImplementedError


class HostFilter(typing.Protocol):
    """A filter for single hosts: a BaseHostFilter, or any object with the method ``host_passes``."""

    @property
    def host_passes(self) -> collections.abc.Callable[..., object]: ...


class PerHost(base.Filter):
    """Adapter for a per-host filter; the filter evaluates only hosts that pass all other filters."""

    run_on_rebuild = True

    def __init__(self, conf: cfg.ConfigOpts, wrapped: HostFilter) -> None:
        super().__init__(conf)
        self._wrapped = wrapped
        self._takes_spec = _takes_spec(wrapped)
        self.run_on_rebuild = bool(getattr(wrapped, 'RUN_ON_REBUILD', True))

    @property
    def name(self) -> str:
        return type(self._wrapped).__name__

    def needs_facts(self, spec: objects.RequestSpec) -> bool:
        return bool(getattr(self._wrapped, 'needs_instances', False))

    def facts(self, conn: engine.Connection, spec: objects.RequestSpec) -> frozenset[typing.Any]:
        return hosts_db.placed_servers(conn)

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        return self.mask_at(hosts, request, np.arange(len(hosts)))

    def mask_at(self, hosts: host_view.Hosts, request: Request, left: np.ndarray) -> np.ndarray:
        second = request.spec if self._takes_spec else properties(self.conf, request)
        servers: Servers = {}
        for host, node, uuid in request.facts.get(self.name, ()):
            servers.setdefault((host, node), {})[uuid] = True
        states, failed = states_of(hosts, left, servers), 0
        found = np.zeros(len(left), dtype=bool)
        for number, state in enumerate(states):
            try:
                found[number] = bool(self._wrapped.host_passes(state, second))
            except Exception as error:
                failed += 1
                if failed == 1:
                    LOG.exception('Filter %s failed on host %s: %s', self.name, state.host, error)
        if failed:
            LOG.error('Filter %s failed on %d of %d hosts; these hosts do not pass.', self.name, failed, len(left))
        return found


def _takes_spec(wrapped: HostFilter) -> bool:
    try:
        names = list(inspect.signature(wrapped.host_passes).parameters)
    except (TypeError, ValueError):
        names = []
    if len(names) > 1 and names[1] == 'filter_properties':
        return False
    return not isinstance(wrapped, BaseHostFilter) or (len(names) > 1 and names[1] in _SPEC)


def states_of(hosts: host_view.Hosts, positions: np.ndarray, servers: Servers | None = None
              ) -> collections.abc.Iterator[types.SimpleNamespace]:
    """Yield an object for each host, with the attributes that per-host plugins expect.

    :param servers: servers on the hosts, for filters that need them
    """
    columns = {name: attribute.read(hosts)[positions].tolist() for name, attribute in attributes.ATTRIBUTES.items()}
    aggregates = hosts.aggregates[positions].tolist()
    metrics = hosts.metrics[positions].tolist()
    for number in range(len(positions)):
        values = {name: column[number] for name, column in columns.items()}
        yield types.SimpleNamespace(
            **values, aggregates=aggregates[number], metrics=metrics[number] or {}, limits={}, stats={},
            instances=(servers or {}).get((values['host'], values['nodename']), {}))


def properties(conf: cfg.ConfigOpts, request: Request) -> Properties:
    spec = request.spec
    assert spec is not None          # only requests that place servers reach plugins; these requests have a spec
    flavor = dict(spec.flavor or {})
    flavor.update(flavorid=flavor.get('flavor_id'), swap=flavor.get('swap') or 0,
                  extra_specs=dict(flavor.get('extra_specs') or {}))
    image = dict(spec.image or {})
    server = {'uuid': spec.instance_uuid, 'project_id': spec.project_id, 'user_id': spec.user_id,
              'availability_zone': request.zone, 'root_gb': flavor.get('root_gb'),
              'ephemeral_gb': flavor.get('ephemeral_gb'), 'memory_mb': flavor.get('memory_mb'),
              'vcpus': flavor.get('vcpus'), 'image_ref': image.get('id'),
              'os_type': (image.get('properties') or {}).get('os_type')}
    hints = {name: values if name in _LISTS or len(values) != 1 else values[0]
             for name, values in (spec.hints or {}).items()}
    group = request.group
    return {
        'context': context.RequestContext(user_id=spec.user_id, project_id=spec.project_id, overwrite=False),
        'request_spec': {'image': image, 'instance_properties': server, 'instance_type': flavor,
                         'instance_uuids': [spec.instance_uuid], 'num_instances': spec.num_instances,
                         'block_device_mapping': spec.block_devices, 'security_group': spec.security_groups},
        'instance_type': flavor, 'instance_uuids': [spec.instance_uuid], 'scheduler_hints': hints,
        'config_options': {}, 'project_id': spec.project_id, 'os_type': server['os_type'],
        'force_hosts': [request.host] if request.forced and request.host else [],
        'force_nodes': [request.node] if request.forced and request.node else [],
        'ignore_hosts': list(request.ignored),
        'retry': {'num_attempts': len(request.failed_nodes) + 1,
                  'hosts': [list(place) for place in request.failed_nodes]},
        'group_hosts': set(group.members) if group else set(), 'limits': {},
        'group_policies': set(getattr(group, 'policies', ())) if group else set(),
        'pci_requests': None}
