"""TrustedFilter: select hosts by the trust level that an attestation service reports.

The service implements the OpenAttestation API: ``POST <attestation_api_url>/PollHosts`` with ``{"hosts": [names]}``
returns ``{"hosts": [{"host_name", "trust_lvl", "vtime"}]}``.
"""
import http.client
import logging
import ssl
import threading
import time

import numpy as np
import orjson

from oslo_config import cfg

from nova import objects
from nova.scheduler import host_view
from nova.scheduler.filters import base
from nova.scheduler.filters import request_fields
from nova.scheduler.placement_request import Request

LOG = logging.getLogger(__name__)

KEY = 'trust:trusted_host'
TIMEOUT_S = 10
MAX_ANSWER = 16 * 1024 * 1024
UNKNOWN = 'unknown'


class TrustedFilter(base.Filter):
    """Hosts with the trust level that the extra spec ``trust:trusted_host`` requires: ``trusted`` or ``untrusted``.

    A host that the service does not know has no level. While the service does not answer, no host has a level.
    """

    run_on_rebuild = False

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self._lock = threading.Lock()
        self._levels: dict[str, tuple[str, float]] = {}     # {host: (level, monotonic time of the answer)}
        self._failed_at = float('-inf')                     # monotonic time of the last failed query

    def needs_facts(self, spec: objects.RequestSpec) -> bool:
        return KEY in ((spec.flavor or {}).get('extra_specs') or {})

    def external_facts(self, hosts: host_view.Hosts, spec: objects.RequestSpec) -> dict[str, str]:
        """Return {host: level}. Query the service for hosts with a level older than attestation_auth_timeout.

        A request that waited for the failed query of another request does not repeat it.
        """
        names, begun = set(hosts.host.tolist()), time.monotonic()
        with self._lock:
            since = time.monotonic() - self.conf.trusted_computing.attestation_auth_timeout
            old = sorted(name for name in names if self._levels.get(name, ('', since))[1] <= since)
            if old:
                answered = self._poll(old) if self._failed_at < begun else {}
                now = time.monotonic()
                for name in old:
                    self._levels.pop(name, None)
                    if name in answered:
                        self._levels[name] = (answered[name], now)
            return {name: self._levels[name][0] for name in names if name in self._levels}

    def _poll(self, names: list[str]) -> dict[str, str]:
        """Query the service for {host: level}; return {} if its answer is invalid or missing."""
        options = self.conf.trusted_computing
        if not options.attestation_server:
            LOG.error('TrustedFilter is enabled but [trusted_computing] attestation_server is not set.')
            return {}
        security = ssl.create_default_context(cafile=options.attestation_server_ca_file)
        if options.attestation_insecure_ssl:
            security.check_hostname, security.verify_mode = False, ssl.CERT_NONE
        headers = {'Content-Type': 'application/json', 'Accept': 'application/json'}
        if options.attestation_auth_blob:
            headers['x-auth-blob'] = options.attestation_auth_blob
        connection = http.client.HTTPSConnection(options.attestation_server, options.attestation_port,
                                                 timeout=TIMEOUT_S, context=security)
        try:
            connection.request('POST', options.attestation_api_url.rstrip('/') + '/PollHosts',
                               orjson.dumps({'hosts': names}), headers)
            answer = connection.getresponse()
            body = answer.read(MAX_ANSWER)
            if answer.status // 100 != 2:
                raise ValueError(f'it returned status {answer.status}')
            return {each['host_name']: str(each['trust_lvl']).lower() for each in orjson.loads(body)['hosts']}
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            LOG.error('The attestation service failed: %s', error)
            self._failed_at = time.monotonic()
            return {}
        finally:
            connection.close()

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        requested = request_fields.extra_specs(request).get(KEY)
        if requested is None:
            return hosts.all_pass
        levels = request.facts.get(self.name) or {}
        requested = str(requested).lower()
        return hosts.on_hosts(name for name, level in levels.items() if level == requested and level != UNKNOWN)

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        if not request.facts.get(self.name):
            return 'could not be attested'
        return f'is|are not attested as {request_fields.extra_specs(request).get(KEY)}'


FILTERS = (TrustedFilter,)
