"""Metrics of a process, kept in memory, and their export to Prometheus.

    metrics.RPC_SENT.labels('compute', 'stop_instance', 'ok').inc()
    with metrics.TASKS.during('compute_stop_instance'):
        …
    metrics.DB_CONNECTIONS.watch(database, read)        # read(database) -> {labels: value}, called at a scrape

Label values come from the code and the configuration, such as method names and status codes. They are never ids, paths
or text of a client. Only SERVERS has ids, up to a configured number. All clouds of a process share one registry, so a
metric has the sum of their values.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
import dataclasses
import logging
import math
import threading
import time
from typing import Any, Self, TypedDict, TypeVar
import weakref

import prometheus_client
from prometheus_client import core
from prometheus_client import exposition
from prometheus_client import metrics_core
from prometheus_client import parser

from nova import version

LOG = logging.getLogger(__name__)

# buckets in seconds; SHORT for requests and messages, LONG for operations of hosts and placements
SHORT = (.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)
LONG = (.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)

prometheus_client.disable_created_metrics()      # otherwise each counter has a second, unused series *_created
REGISTRY = prometheus_client.CollectorRegistry()


@dataclasses.dataclass(frozen=True)
class Row:
    """A metric as listed in the documentation."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str


ROWS: list[Row] = []
Owner = TypeVar('Owner')
Labels = TypeVar('Labels', bound=tuple[str, ...])


class Sample(TypedDict):
    name: str
    labels: dict[str, str]
    value: float


class Family(TypedDict):
    """A metric with its current samples."""

    name: str
    kind: str
    text: str
    samples: list[Sample]


def _counter(name: str, text: str, *labels: str) -> prometheus_client.Counter:
    ROWS.append(Row(name, 'counter', labels, text))
    return prometheus_client.Counter(name, text, labels, registry=REGISTRY)


def _gauge(name: str, text: str, *labels: str) -> prometheus_client.Gauge:
    ROWS.append(Row(name, 'gauge', labels, text))
    return prometheus_client.Gauge(name, text, labels, registry=REGISTRY)


def _histogram(name: str, text: str, *labels: str, buckets: Sequence[float] = SHORT) -> prometheus_client.Histogram:
    ROWS.append(Row(name, 'histogram', labels, text))
    return prometheus_client.Histogram(name, text, labels, registry=REGISTRY, buckets=buckets)


class InProgress:
    """Two metrics of operations in progress: their number, and the age of the oldest one."""

    def __init__(self, name: str, oldest: str, text: str, *labels: str) -> None:
        self._rows = (Row(name, 'gauge', labels, f'{text} now'),
                      Row(oldest, 'gauge', labels, f'Age in seconds of the oldest of these operations: {text.lower()}'))
        self._labels = labels
        self._running: dict[_During, tuple[tuple[str, ...], float]] = {}             # {token: (labels, begin)}
        ROWS.extend(self._rows)
        REGISTRY.register(self)

    def during(self, *labels: str) -> _During:
        """Return a context manager that counts its block as one operation."""
        return _During(self._running, labels)

    def describe(self) -> list[metrics_core.Metric]:
        return []

    def collect(self) -> list[metrics_core.Metric]:
        now = time.monotonic()
        found: dict[tuple[str, ...], tuple[int, float]] = {}
        for labels, began in list(self._running.values()):
            count, oldest = found.get(labels, (0, began))
            found[labels] = count + 1, min(oldest, began)
        if not self._labels:
            found = found or {(): (0, now)}
        counts, ages = (core.GaugeMetricFamily(row.name, row.text, labels=row.labels) for row in self._rows)
        for labels, (number, began) in found.items():
            counts.add_metric(labels, number)
            ages.add_metric(labels, now - began)
        return [counts, ages]


class _During:
    __slots__ = ('_running', '_labels')

    def __init__(self, running: dict[_During, tuple[tuple[str, ...], float]], labels: tuple[str, ...]) -> None:
        self._running, self._labels = running, labels

    def __enter__(self) -> None:
        self._running[self] = self._labels, time.monotonic()

    def __exit__(self, *_: object) -> None:
        del self._running[self]


class Watched:
    """A metric that each scrape reads from live objects; values with equal labels are combined.

    :param combine: function of a list of values: sum, max
    :param kind: gauge or counter
    """

    def __init__(self, name: str, text: str, *labels: str, combine: Callable[[list[float]], float] = sum,
                 kind: str = 'gauge') -> None:
        self._name, self._text, self._labels, self._combine = name, text, labels, combine
        self._family = core.GaugeMetricFamily if kind == 'gauge' else core.CounterMetricFamily
        self._owners = weakref.WeakKeyDictionary[object, Callable[[Any], Mapping[Any, float]]]()
        self._lock = threading.Lock()
        ROWS.append(Row(name, kind, labels, text))
        REGISTRY.register(self)

    def watch(self, owner: Owner, read: Callable[[Owner], Mapping[Labels, float]]) -> None:
        """Add an object from which the metric is read.

        :param read: ``read(owner)`` -> {labels: value}; it must neither block nor use a database
        """
        with self._lock:
            self._owners[owner] = read

    def forget(self, owner: object) -> None:
        with self._lock:
            self._owners.pop(owner, None)

    def describe(self) -> list[metrics_core.Metric]:
        return []

    def collect(self) -> list[metrics_core.Metric]:
        with self._lock:
            owners = list(self._owners.items())
        found: dict[tuple[str, ...], list[float]] = {}
        for owner, read in owners:
            try:
                for labels, value in read(owner).items():
                    found.setdefault(labels, []).append(value)
            except Exception as error:       # continue with the other objects
                LOG.warning('%s cannot be read: %s', self._name, repr(error))
        family = self._family(self._name, self._text, labels=self._labels)
        for labels, values in found.items():
            family.add_metric(labels, self._combine(values))
        return [family]


# ---- the API

API_REQUESTS = _counter(
    'nova_api_requests_total', 'Answered requests to the compute API. `route` is the template of the '
    'operation, empty when no operation was found or the caller had no valid token; `action` the key of the body of '
    'POST …/action', 'method', 'route', 'action', 'status')
API_SECONDS = _histogram(
    'nova_api_request_seconds', 'Time from a request to the beginning of its response', 'method', 'route')
API_RUNNING = InProgress(
    'nova_api_requests_in_progress', 'nova_api_oldest_request_seconds', 'Requests in progress')

# ---- messages

NETWORK_REPAIRS = _counter(
    'nova_network_repairs_total', 'Missing network objects of a host that were created again, because another program '
    'had removed them. `kind`: namespace, of a network or a router; filters, of nftables', 'kind')
RPC_SENT = _counter(
    'nova_rpc_sent_total', 'Messages sent to other services. `result`: ok; error, the request cannot be '
    'done; failed, the receiver failed; unavailable, no broker, queue or answer; unsupported, the receiver is too '
    'old',
    'topic', 'method', 'result')
RPC_CALL_SECONDS = _histogram(
    'nova_rpc_call_seconds', 'Time from a call to its answer', 'topic', 'method')
RPC_RECEIVED = _counter(
    'nova_rpc_received_total', 'Processed messages. `result`: ok; error, the request cannot be carried out; failed, a '
    'traceback is in the log', 'topic', 'method', 'result')
RPC_REFUSED = _counter(
    'nova_rpc_refused_total', 'Messages of compute hosts that were refused, because they name objects of '
    'other hosts. If it is not 0, see the log', 'topic', 'method')
RPC_SIGNATURES = _counter(
    'nova_rpc_signatures_total', 'Messages whose signature was checked. `result`: ok; unsigned, accepted because '
    '[messages] signatures is accept; repeated, not processed a second time; refused', 'topic', 'result')
RPC_SECONDS = _histogram(
    'nova_rpc_handling_seconds', 'Time that a message took', 'topic', 'method')
RPC_RUNNING = InProgress(
    'nova_rpc_in_progress', 'nova_rpc_oldest_seconds', 'Messages in progress', 'topic', 'method')

# ---- placement

PLACED = _counter(
    'nova_placements_total', 'Servers placed on a host, new ones and moved ones')
PLACEMENT_REFUSED = _counter(
    'nova_placements_refused_total', 'Requests for which no host was found. `filter`: the filter that removed the '
    'last hosts; `none` if there are no hosts at all, `claims` if every claim failed', 'filter')
PLACEMENT_REMOVED = _counter(
    'nova_placement_hosts_removed_total', 'Hosts that a filter removed in requests for which no host was found',
    'filter')
PLACEMENT_RETRIES = _counter(
    'nova_placement_claim_retries_total', 'Rankings repeated because all claims of the last ranking failed')
PLACEMENT_SECONDS = _histogram(
    'nova_placement_seconds', 'Time from a request for hosts to its answer')
PLACEMENT_BATCH = _histogram(
    'nova_placement_batch_requests', 'Requests in one batch', buckets=(1, 2, 4, 8, 16, 32, 64))
HOSTS = Watched(
    'nova_scheduler_hosts', 'Nodes in the table of the scheduler')
HOSTS_AGE = Watched(
    'nova_scheduler_host_table_age_seconds', 'Time since the table of the scheduler was compared with the database',
    combine=max)

# ---- operations on servers

TASKS = InProgress(
    'nova_tasks_in_progress', 'nova_task_oldest_seconds', 'Tasks on servers of this host', 'event')
TASKS_ENDED = _counter(
    'nova_tasks_ended_total', 'Tasks on servers of this host that ended. `result`: success; error; superseded, '
    'the server no longer belonged to the task', 'event', 'result')
TASK_SECONDS = _histogram(
    'nova_task_seconds', 'Time that a task on a server of this host took', 'event', buckets=LONG)
ACTIONS_ENDED = _counter(
    'nova_actions_ended_total', 'Actions on servers, ended by this service for itself or for a host. '
    '`event`: the last one of the action', 'event', 'result')
BUILD_SECONDS = _histogram(
    'nova_server_build_seconds', 'Time from the request for a server until it is ACTIVE', buckets=LONG)
RECONCILER_DECISIONS = _counter(
    'nova_reconciler_decisions_total', 'Overdue actions that the reconciler handled, by its decision', 'decision')
USAGE_AUDITS = _counter(
    'nova_usage_audit_runs_total', 'Comparisons of the usage of all nodes with their servers')
USAGE_DRIFT = _counter(
    'nova_usage_audit_drift_total', 'Differences that such a comparison has found and repaired: should stay 0')


class Run:
    """Context manager that measures a task on a server. The block may set ``result``."""

    def __init__(self, event: str, result: str) -> None:
        self._event, self.result = event, result
        self._during = TASKS.during(event)

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._during.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._during.__exit__()
        TASKS_ENDED.labels(self._event, self.result).inc()
        TASK_SECONDS.labels(self._event).observe(time.monotonic() - self._began)


# ---- services

HEARTBEATS = _counter(
    'nova_heartbeats_total', 'Heartbeats of the services of this process. `result`: ok or failed', 'binary', 'result')
HEARTBEATS_LATE = _counter(
    'nova_heartbeats_late_total', 'Heartbeats more than twice report_interval after the previous one',
    'binary')
HEARTBEAT_AGE = Watched(
    'nova_heartbeat_age_seconds', 'Time since the last successful heartbeat', 'binary', combine=max)
PERIODIC_RUNS = _counter(
    'nova_periodic_runs_total', 'Runs of periodic tasks. `result`: ok or failed', 'task', 'result')
PERIODIC_SECONDS = _histogram(
    'nova_periodic_seconds', 'Time that a run of a periodic task took', 'task', buckets=LONG)

# ---- databases

DB_TRANSACTIONS = _counter(
    'nova_db_transactions_total', 'Successful transactions. `kind`: read or write', 'database', 'kind')
DB_RETRIES = _counter(
    'nova_db_retries_total', 'Transactions that lost a deadlock or a lock race and were run again', 'database')
DB_RECONNECTS = _counter(
    'nova_db_reconnects_total', 'Transactions that lost their connection before the commit and were begun again',
    'database')
DB_FAILURES = _counter(
    'nova_db_failures_total', 'Transactions that failed after the last retry', 'database')
DB_CONNECTIONS = Watched(
    'nova_db_connections', 'Connections to a database. `state`: in_use or idle', 'database', 'state')

# ---- notifications

NOTIFICATIONS = _counter(
    'nova_notifications_total', 'Notifications. `result`: sent, dropped (the queue is full) or failed', 'result')

AUDIT_LOG_LOST = _counter(
    'nova_audit_log_lost_total', 'Requests without a separate record in the audit log. `reason`: flood (refused '
    'ones, which are counted in one record) or error (the log of the service has the request)', 'reason')
AUDIT_LOG_SEALED = _counter('nova_audit_log_sealed_total', 'Records of the audit log that were sealed', 'database')
AUDIT_LOG_UNSEALED = Watched(
    'nova_audit_log_unsealed_seconds', 'Age of the oldest record of the audit log that waits for its seal', 'database',
    combine=max)
AUDIT_LOG_TRUNCATED = _counter(
    'nova_audit_log_truncated_total', 'Checks that found an audit log truncated: its end precedes the end that an '
    'earlier check found', 'database')

# ---- guests

CONSOLE_SESSIONS = Watched('nova_console_sessions', 'Console sessions of this proxy')
ISOLATION_WEAKNESSES = Watched(
    'nova_compute_isolation_weaknesses',
    'Number of reasons why the guests of this host are not isolated; 0 if they are', combine=max)

GUESTS_FAILED = _counter(
    'nova_compute_guests_failed_total', 'Guests of this host that ended without a request or a shutdown from inside. '
    '`cause`: crashed, the hypervisor process has ended; failed, it could not continue; paused, it stopped them '
    'because of a failed write to a disk', 'cause')
EXPORTS_ORPHANED = _counter(
    'nova_volume_exports_orphaned_total', 'Exports of volumes on a host without an attachment: they stay open, '
    'because the database may have been restored from a backup')
ORPHANS_REMOVED = _counter(
    'nova_compute_orphans_removed_total', 'Removed orphans: resources of servers that are deleted or on other hosts. '
    '`kind`: guest; files, of an incomplete operation; shared_files, such files on storage shared with other '
    'hosts; '
    'resize_backup, disks kept until a resize is confirmed; incoming, files prepared for a live migration on shared '
    'disks', 'kind')
ORPHANS = Watched(
    'nova_compute_orphans', 'Orphans of servers that no conductor knows, and orphans that could not be removed: '
    'they are kept and need attention', 'kind')

# {counter of nova/objects/counters.py: its metric}; without samples if [monitoring] server_series is 0
SERVERS = {
    'memory_bytes': Watched('nova_server_memory_bytes', 'Memory that a server of this host uses', 'server'),
    'cpu_ns': Watched('nova_server_cpu_seconds_total', 'Processor time of a server of this host', 'server',
                      kind='counter'),
    **{f'{device}_{way}_{what}': Watched(
        f'nova_server_{device}_{way}_{what}_total', f'{device.capitalize()} {what} of a server of this host: {way}',
        'server', kind='counter')
       for device, ways, things in (('disk', ('read', 'write'), ('bytes', 'requests')),
                                    ('network', ('receive', 'transmit'), ('bytes', 'packets')))
       for way in ways for what in things}}

STATE_BACKUP_AGE = Watched(
    'nova_state_backup_age_seconds', 'Time since the newest nightly backup of the control plane, infinite before the '
    'first one', combine=max)

# ---- queues: nova/runtime/queues.py

QUEUE_WAITING = Watched('nova_queue_waiting', 'Requests, messages or jobs that wait in a queue', 'queue')
QUEUE_RUNNING = Watched('nova_queue_running', 'Requests, messages or jobs of a queue that run', 'queue')

# ---- the process

INFO = _gauge(
    'nova_build_info', '1; its labels describe this process', 'binary', 'version', 'thread_model')
HEALTHY = Watched(
    'nova_healthy', '1 while all parts of this process are alive, as in /healthz; else 0', combine=min)
prometheus_client.ProcessCollector(registry=REGISTRY)
prometheus_client.PlatformCollector(registry=REGISTRY)


for _cause in ('crashed', 'failed', 'paused'):         # begin at 0: alert rules miss a series that begins at 1
    GUESTS_FAILED.labels(_cause)
for _kind in ('guest', 'files', 'shared_files', 'resize_backup', 'incoming'):
    ORPHANS_REMOVED.labels(_kind)


def describe_process(binary: str, thread_model: str) -> None:
    INFO.labels(binary, version.VERSION, thread_model).set(1)


def values() -> list[Family]:
    """Return all metrics without buckets of histograms, and without infinite values, which JSON cannot represent."""
    return [{'name': family.name, 'kind': family.type, 'text': family.documentation,
             'samples': [{'name': sample.name, 'labels': sample.labels, 'value': sample.value}
                         for sample in family.samples
                         if not sample.name.endswith('_bucket') and math.isfinite(sample.value)]}
            for family in REGISTRY.collect()]


def exposed(accept: str = '') -> tuple[bytes, str]:
    """Return (body, content type) of all metrics, in the format that an Accept header prefers."""
    encode, content_type = exposition.choose_encoder(accept)
    return encode(REGISTRY), content_type


def parsed(text: str) -> list[metrics_core.Metric]:
    """Return the metrics of a result of ``exposed`` in the classic format.

    :raises ValueError: the text cannot be parsed
    """
    return list(parser.text_string_to_metric_families(text))


def exposed_of_all(others: dict[str, list[metrics_core.Metric]], accept: str = '') -> tuple[bytes, str]:
    """Return the metrics of this process (label worker='0') and of other processes, in the format of ``exposed``.

    :param others: {label value: metrics of another process}
    """
    families: dict[str, metrics_core.Metric] = {}
    for worker, found in {'0': REGISTRY.collect(), **others}.items():
        for family in found:
            kept = families.setdefault(family.name, metrics_core.Metric(family.name, family.documentation,
                                                                        family.type))
            kept.samples += [sample._replace(labels={**sample.labels, 'worker': worker}) for sample in family.samples]
    encode, content_type = exposition.choose_encoder(accept)
    return encode(_Collected(list(families.values()))), content_type


class _Collected(prometheus_client.CollectorRegistry):
    """A registry that returns already collected families."""

    def __init__(self, families: list[metrics_core.Metric]) -> None:
        super().__init__()
        self._families = families

    def collect(self) -> Iterator[metrics_core.Metric]:
        return iter(self._families)
