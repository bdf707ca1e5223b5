"""Placement client: resource providers of hosts' networks, and allocations of ports.

The consumer id of a claim is derived from port, server and host. Later requests therefore find the claim, and a
repeated request makes no second claim. The server is stored as the allocation's user, to find claims of detached ports.
"""
import logging
from typing import Any, NamedTuple
import uuid

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.context import RequestContext
from nova.network.neutron import client
from nova.network.neutron.documents import Port
from nova.network.neutron import requests
from nova.runtime import rest_client

LOG = logging.getLogger(__name__)

SERVICE_TYPE = 'placement'
VERSION = 'placement 1.36'               # first version with same_subtree
TIMEOUT_S = 60
MAX_ATTEMPTS = 3                                # maximum attempts of a claim after conflicts
MAX_CANDIDATES = 100                               # maximum allocation candidates that a claim tries
_CONSUMERS = uuid.UUID('5b3f36a1-6a9c-4d8a-b9a5-8b1f5a6f0d2e')

Document = dict[str, Any]


class Segments(NamedTuple):
    """Host aggregates of the given segments, and the resource providers of the hosts in them.

    aggregates  uuids of the segments' host aggregates, which Neutron creates in the compute API
    nodes       names of the hosts' resource providers in these aggregates
    """

    aggregates: frozenset[str]
    nodes: frozenset[str]


def consumer(port_id: str, server: str, host: str) -> str:
    """Return the consumer id of a port's claim on a host."""
    return str(uuid.uuid5(_CONSUMERS, f'{port_id}/{server}/{host}'))


class Placement:
    """Thread-safe client with the system's credentials.

    :param conf: uses [placement] (see nova.runtime.rest_client)
    """

    def __init__(self, conf: ConfigOpts) -> None:
        self._service = rest_client.Service(conf, 'placement', SERVICE_TYPE, 'Placement',
                                            connect_retries=client.CONNECT_RETRIES, once=('POST', 'PUT'))
        self._timeout = conf.placement.timeout or TIMEOUT_S

    # ---- hosts

    def hosts_with(self, ctx: RequestContext, ports: list[Port]) -> frozenset[str]:
        """Return the names of the resource providers of hosts that have the resources for all these ports."""
        found = self._call(ctx, 'GET', '/allocation_candidates', params=requests.query(ports))
        roots = {each['root_provider_uuid'] for each in found['provider_summaries'].values()}
        return frozenset(row['name'] for row in self._providers(ctx) if row['uuid'] in roots) if roots else frozenset()

    def hosts_in(self, ctx: RequestContext, segments: set[str]) -> Segments:
        """Return the host aggregates of these segments, and the resource providers of their hosts.

        Neutron creates a resource provider with the segment's id, in an aggregate with the segment's hosts.
        """
        aggregates = frozenset(aggregate for ident in sorted(segments) for aggregate in self._aggregates(ctx, ident))
        if not aggregates:
            return Segments(aggregates, frozenset())
        members = self._providers(ctx, [('member_of', 'in:' + ','.join(sorted(aggregates)))])
        return Segments(aggregates, frozenset(row['name'] for row in members))

    def _aggregates(self, ctx: RequestContext, provider: str) -> list[str]:
        ident = rest_client.checked(provider, exception.NotFound())
        found: list[str] = self._call(ctx, 'GET', f'/resource_providers/{ident}/aggregates').get('aggregates', [])
        return found

    def _providers(self, ctx: RequestContext, params: requests.Query | None = None) -> list[Document]:
        found: list[Document] = self._call(ctx, 'GET', '/resource_providers', params=params)['resource_providers']
        return found

    def begin(self, ctx: RequestContext, nodes: dict[str, str]) -> None:
        """Create missing resource providers of hosts. Neutron creates child providers for network devices.

        :param nodes: {name: uuid}
        """
        known = {row['name'] for row in self._providers(ctx)}
        for name, ident in nodes.items():
            if name not in known:
                self._call(ctx, 'POST', '/resource_providers', conflict=True, json={'name': name, 'uuid': ident})

    # ---- claims

    def claim(self, ctx: RequestContext, port: Port, server: str, host: str, node: str) -> requests.Providers:
        """Allocate a port's resources on a host and return its binding profile value. Idempotent.

        :param node: name of the host's provider
        :raises PortBindingFailed: the host lacks the resources
        """
        ident = consumer(port['id'], server, host)
        for _ in range(MAX_ATTEMPTS):
            there = self._call(ctx, 'GET', f'/allocations/{ident}').get('allocations') or {}
            if there:
                found = requests.allocation_value(port, there)
                if found is not None:
                    return found
                # the claim was for an earlier QoS policy of the port: replace it
                self.release(ctx, port['id'], server, host)
            found = self._claim(ctx, port, server, node, ident)
            if found is not None:
                return found
        raise exception.PortBindingFailed(
            reason=f'host {host} is not connected to the network of port {port["id"]}, or lacks the bandwidth or '
                   'packet rate that it requests.')

    def _claim(self, ctx: RequestContext, port: Port, server: str, node: str,
               ident: str) -> requests.Providers | None:
        """Allocate the resources; return the binding profile value, or None if no candidate has the resources."""
        roots = self._providers(ctx, [('name', node)])
        if not roots:
            return None
        params = [*requests.query([port], roots[0]['uuid']), ('limit', str(MAX_CANDIDATES))]
        for candidate in self._call(ctx, 'GET', '/allocation_candidates', params=params)['allocation_requests']:
            body = {'allocations': candidate['allocations'], 'project_id': port['project_id'],
                    'user_id': server, 'consumer_generation': None}
            if self._call(ctx, 'PUT', f'/allocations/{ident}', conflict=True, json=body) is not CONFLICT:
                return requests.allocation(port, candidate['mappings'])
        return None

    def release(self, ctx: RequestContext, port_id: str, server: str, host: str) -> None:
        """Release a port's resources on a host. Idempotent."""
        self._call(ctx, 'DELETE', f'/allocations/{consumer(port_id, server, host)}')

    def release_server(self, ctx: RequestContext, server: str, project: str, node: str) -> None:
        """Release all resources of a server's ports on a host. Without such resources, only one request is sent.

        :param project: project of the server
        :param node: name of the host's provider
        """
        if not self._call(ctx, 'GET', '/usages', params=[('project_id', project), ('user_id', server)])['usages']:
            return
        below = [row['uuid'] for root in self._providers(ctx, [('name', node)])
                 for row in self._providers(ctx, [('in_tree', root['uuid'])])]
        consumers = {ident for provider in below for ident in self._call(
            ctx, 'GET', f'/resource_providers/{provider}/allocations').get('allocations', {})}
        for ident in sorted(consumers):
            if self._call(ctx, 'GET', f'/allocations/{ident}').get('user_id') == server:
                LOG.warning('Releasing a claim of a lost port of deleted server %s on %s.', server, node)
                self._call(ctx, 'DELETE', f'/allocations/{ident}')

    # ---- requests

    def _call(self, ctx: RequestContext, method: str, path: str, conflict: bool = False,
              params: requests.Query | None = None, json: Document | None = None) -> Document:
        """Send a request and return the document of the response; {} for 404 or an empty response.

        :param conflict: return CONFLICT for 409
        :raises Unavailable: the service does not answer in time, or returns a server error
        """
        response = self._service.request(
            ctx, method, lambda: self._service.endpoint() + path,
            {'Accept': 'application/json', 'OpenStack-API-Version': VERSION}, timeout=self._timeout,
            params=params, json=json)
        code = response.status_code
        if code < 400:
            return response.json() if response.content else {}
        if code == 404 and path.startswith(('/resource_providers/', '/allocations/')):
            return {}
        if code == 409 and conflict:
            return CONFLICT
        LOG.warning('The Placement service answered %s %s with code %s.', method, path, code)
        raise self._service.refusal(ctx, code)


CONFLICT: Document = {'conflict': True}
