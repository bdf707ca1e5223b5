"""What a process counts of its own work, in memory, and how Prometheus reads it.

    metrics.RPC_SENT.labels('compute', 'stop_instance', 'ok').inc()
    with metrics.TASKS.during('compute_stop_instance'):
        …
    metrics.DB_CONNECTIONS.watch(database, read)        # read(database) -> {labels: value}, called at a scrape

Labels hold names of the code and of the configuration: rows, filters, status codes, never an id, a path or a text that
a client sent. One registry a process: several clouds in one process add up.
"""
from __future__ import annotations

from collections.abc import Iterator
import dataclasses
import importlib.metadata
import logging
import math
import threading
import time
from typing import Any
import weakref

import prometheus_client
from prometheus_client import core
from prometheus_client import exposition
from prometheus_client import metrics_core
from prometheus_client import parser

LOG = logging.getLogger(__name__)

# seconds; of requests and messages, and of what hosts and placements take
SHORT = (.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)
LONG = (.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)

prometheus_client.disable_created_metrics()      # one series more for each, without a use
REGISTRY = prometheus_client.CollectorRegistry()


@dataclasses.dataclass(frozen=True)
class Row:
    """A metric as the documentation lists it."""

    name: str
    kind: str
    labels: tuple[Any, ...]
    text: str


ROWS: list[Any] = []


def _metric(cls: Any, name: str, text: Any, labels: tuple[str, ...], **more: Any) -> Any:
    ROWS.append(Row(name, cls.__name__.lower(), tuple(labels), text))
    return cls(name, text, labels, registry=REGISTRY, **more)


def _counter(name: str, text: Any, *labels: Any) -> Any:
    return _metric(prometheus_client.Counter, name, text, labels)


def _histogram(name: str, text: Any, *labels: Any, buckets: Any = SHORT) -> Any:
    return _metric(prometheus_client.Histogram, name, text, labels, buckets=buckets)


class InProgress:
    """What goes on now: how many there are, and how old the oldest is."""

    def __init__(self, name: str, oldest: Any, text: Any, *labels: Any) -> None:
        self._rows = (Row(name, 'gauge', labels, f'{text} now'),
                      Row(oldest, 'gauge', labels, f'Age of the oldest of these, in seconds: {text.lower()}'))
        self._labels = labels
        self._running: dict[Any, Any] = {}                       # token: (labels, when it began)
        ROWS.extend(self._rows)
        REGISTRY.register(self)

    def during(self, *labels: Any) -> Any:
        """A context manager: one more while its block runs."""
        return _During(self._running, labels)

    def describe(self) -> list[Any]:
        return []

    def collect(self) -> list[Any]:
        now = time.monotonic()
        found: dict[Any, Any] = {}
        for labels, began in list(self._running.values()):
            count, oldest = found.get(labels, (0, began))
            found[labels] = count + 1, min(oldest, began)
        if not self._labels:
            found = found or {(): (0, now)}
        count, age = (core.GaugeMetricFamily(row.name, row.text, labels=row.labels) for row in self._rows)
        for labels, (number, began) in found.items():
            count.add_metric(labels, number)
            age.add_metric(labels, now - began)
        return [count, age]


class _During:
    __slots__ = ('_running', '_labels')

    def __init__(self, running: Any, labels: tuple[str, ...]) -> None:
        self._running, self._labels = running, labels

    def __enter__(self) -> None:
        self._running[self] = self._labels, time.monotonic()

    def __exit__(self, *_: Any) -> None:
        del self._running[self]


class Watched:
    """A gauge that is read of living objects at a scrape; what they say of the same labels is combined.

    :param combine: function of a list of values: sum, max
    """

    def __init__(self, name: str, text: Any, *labels: Any, combine: Any = sum) -> None:
        self._name, self._text, self._labels, self._combine = name, text, labels, combine
        self._owners: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        ROWS.append(Row(name, 'gauge', labels, text))
        REGISTRY.register(self)

    def watch(self, owner: Any, read: Any) -> None:
        """
        :param read: ``read(owner)`` -> {labels: value}; it must neither block nor ask a database
        """
        with self._lock:
            self._owners[owner] = read

    def forget(self, owner: Any) -> None:
        with self._lock:
            self._owners.pop(owner, None)

    def describe(self) -> list[Any]:
        return []

    def collect(self) -> list[Any]:
        with self._lock:
            owners = list(self._owners.items())
        found: dict[Any, Any] = {}
        for owner, read in owners:
            try:
                for labels, value in read(owner).items():
                    found.setdefault(labels, []).append(value)
            except Exception as error:       # the others still can be read
                LOG.warning('%s cannot be read: %s', self._name, repr(error))
        family = core.GaugeMetricFamily(self._name, self._text, labels=self._labels)
        for labels, values in found.items():
            family.add_metric(labels, self._combine(values))
        return [family]


# ---- the API

API_REQUESTS = _counter(
    'nova_api_requests_total', 'Requests to the compute API that were answered. `route` is the template of the '
    'operation, empty when no operation was found or the caller had no valid token; `action` the key of the body of '
    'POST …/action', 'method', 'route', 'action', 'status')
API_SECONDS = _histogram(
    'nova_api_request_seconds', 'Time from a request to the beginning of its answer', 'method', 'route')
API_RUNNING = InProgress(
    'nova_api_requests_in_progress', 'nova_api_oldest_request_seconds', 'Requests that are being worked on')

# ---- messages

NETWORK_MENDED = _counter(
    'nova_network_mended_total', 'What was gone from a host and was made again: something else removes it. '
    '`kind`: namespace, of a network or a router; filters, of nftables', 'kind')
RPC_SENT = _counter(
    'nova_rpc_sent_total', 'Messages sent to other services. `result`: ok; error, an answer that something cannot be '
    'done; failed, the other side broke; unavailable, no broker, no queue or no answer; unsupported, it is too old',
    'topic', 'method', 'result')
RPC_CALL_SECONDS = _histogram(
    'nova_rpc_call_seconds', 'Time from a call to its answer', 'topic', 'method')
RPC_RECEIVED = _counter(
    'nova_rpc_received_total', 'Messages worked on. `result`: ok; error, it cannot be done; failed, a traceback is in '
    'the log', 'topic', 'method', 'result')
RPC_REFUSED = _counter(
    'nova_rpc_refused_total', 'Messages of compute hosts that were refused, because they are about what is not the '
    "host's own. Anything but 0 needs a look at the log", 'topic', 'method')
RPC_SIGNATURES = _counter(
    'nova_rpc_signatures_total', 'Messages that were looked at for a signature. `result`: ok; unsigned, taken because '
    '[messages] signatures is accept; repeated, not worked on a second time; refused', 'topic', 'result')
RPC_SECONDS = _histogram(
    'nova_rpc_handling_seconds', 'Time that a message took', 'topic', 'method')
RPC_RUNNING = InProgress(
    'nova_rpc_in_progress', 'nova_rpc_oldest_seconds', 'Messages that are being worked on', 'topic', 'method')

# ---- placement

PLACED = _counter(
    'nova_placements_total', 'Servers that were given a host, new ones and moved ones')
PLACEMENT_REFUSED = _counter(
    'nova_placements_refused_total', 'Requests for which no host was found. `filter`: which one removed the last '
    'hosts; `none` where there are no hosts at all, `claims` where others were faster each time', 'filter')
PLACEMENT_REMOVED = _counter(
    'nova_placement_hosts_removed_total', 'Hosts that a filter removed in requests for which no host was found',
    'filter')
PLACEMENT_RETRIES = _counter(
    'nova_placement_claim_retries_total', 'Rankings repeated because the claims on all hosts of the last one failed')
PLACEMENT_SECONDS = _histogram(
    'nova_placement_seconds', 'Time from a request for hosts to its answer')
PLACEMENT_BATCH = _histogram(
    'nova_placement_batch_requests', 'Requests that were decided in one batch', buckets=(1, 2, 4, 8, 16, 32, 64))
HOSTS = Watched(
    'nova_scheduler_hosts', 'Nodes in the table of the scheduler')
HOSTS_AGE = Watched(
    'nova_scheduler_host_table_age_seconds', 'Time since the table of the scheduler was compared with the database',
    combine=max)

# ---- what is done to servers

TASKS = InProgress(
    'nova_tasks_in_progress', 'nova_task_oldest_seconds', 'Tasks on servers of this host', 'event')
TASKS_ENDED = _counter(
    'nova_tasks_ended_total', 'Tasks on servers of this host that ended. `result`: success; error; overtaken, the '
    'server was not in its hands any more', 'event', 'result')
TASK_SECONDS = _histogram(
    'nova_task_seconds', 'Time that a task on a server of this host took', 'event', buckets=LONG)
ACTIONS_ENDED = _counter(
    'nova_actions_ended_total', 'Actions on servers whose end this service has written, for itself or for a host. '
    '`event`: the last one of the action', 'event', 'result')
BUILD_SECONDS = _histogram(
    'nova_server_build_seconds', 'Time from the request for a server until it is ACTIVE', buckets=LONG)
RECONCILED = _counter(
    'nova_reconciler_taken_total', 'Overdue actions that were looked after. `what`: what was decided', 'what')
AUDITS = _counter(
    'nova_audit_runs_total', 'Comparisons of the usage of all nodes with their servers')
DRIFT = _counter(
    'nova_audit_drift_total', 'Differences that such a comparison has found and mended: should stay 0')


class Run:
    """A task on a server of this host, while its block runs; ``result`` is how it ends unless it is set."""

    def __init__(self, event: Any, result: Any) -> None:
        self._event, self.result = event, result
        self._during = TASKS.during(event)

    def __enter__(self) -> Any:
        self._began = time.monotonic()
        self._during.__enter__()
        return self

    def __exit__(self, *_: Any) -> None:
        self._during.__exit__()
        TASKS_ENDED.labels(self._event, self.result).inc()
        TASK_SECONDS.labels(self._event).observe(time.monotonic() - self._began)


# ---- services

HEARTBEATS = _counter(
    'nova_heartbeats_total', 'Heartbeats of the services of this process. `result`: ok or failed', 'binary', 'result')
HEARTBEATS_LATE = _counter(
    'nova_heartbeats_late_total', 'Heartbeats that came later after the one before than twice report_interval',
    'binary')
HEARTBEAT_AGE = Watched(
    'nova_heartbeat_age_seconds', 'Time since the last heartbeat that arrived', 'binary', combine=max)
PERIODIC_RUNS = _counter(
    'nova_periodic_runs_total', 'Runs of periodic tasks. `result`: ok or failed', 'task', 'result')
PERIODIC_SECONDS = _histogram(
    'nova_periodic_seconds', 'Time that a run of a periodic task took', 'task', buckets=LONG)

# ---- databases

DB_TRANSACTIONS = _counter(
    'nova_db_transactions_total', 'Transactions that ended well. `kind`: read or write', 'database', 'kind')
DB_RETRIES = _counter(
    'nova_db_retries_total', 'Transactions that lost a deadlock or a lock race and were run again', 'database')
DB_RECONNECTS = _counter(
    'nova_db_reconnects_total', 'Transactions that lost their connection before the commit and were begun again',
    'database')
DB_GAVE_UP = _counter(
    'nova_db_gave_up_total', 'Transactions that were given up after they had lost too often', 'database')
DB_CONNECTIONS = Watched(
    'nova_db_connections', 'Connections to a database. `state`: in_use or idle', 'database', 'state')

# ---- notifications

NOTIFICATIONS = _counter(
    'nova_notifications_total', 'Notifications. `result`: sent, dropped (no room in the queue) or failed', 'result')

AUDIT_LOST = _counter(
    'nova_audit_lost_total', 'Requests without a record of their own in the audit log. `why`: flood (refused ones, '
    'which are counted in one record) or error (the log of the service has it)', 'why')
AUDIT_SEALED = _counter('nova_audit_sealed_total', 'Records of the audit log that were sealed', 'database')
AUDIT_UNSEALED = Watched(
    'nova_audit_unsealed_seconds', 'Age of the oldest record of the audit log that waits for its seal', 'database',
    combine=max)
AUDIT_BROKEN = _counter(
    'nova_audit_broken_total', "Looks at an audit log whose end lay before one that was seen: it was truncated",
    'database')

# ---- guests

CONSOLE_SESSIONS = Watched('nova_console_sessions', 'Sessions of consoles that this proxy holds')
WEAKNESSES = Watched(
    'nova_compute_weaknesses', 'Reasons why the guests of this host are not kept apart; 0 when they are', combine=max)

GUESTS_FAILED = _counter(
    'nova_compute_guests_failed_total', 'Guests of this host that ended without a request or an order from inside. '
    '`how`: crashed, their hypervisor process has ended; failed, it could not go on; paused, it stopped them because a '
    'disk did not take a write', 'how')
EXPORTS_UNNAMED = _counter(
    'nova_volume_exports_unnamed_total', 'Exports of volumes that a host has and no attachment names: they stay open, '
    'and the database may have been restored from a backup')
STRAYS_REMOVED = _counter(
    'nova_compute_strays_removed_total', 'What this host had of servers that are deleted, or live elsewhere, and has '
    'removed. `what`: guest; files of a step that did not come to its end; shared_files, the same where another host '
    'may have left them; kept, what was put aside for a way back; coming, what was made ready for a live migration on '
    'shared disks', 'what')
STRAYS_LEFT = Watched(
    'nova_compute_strays', 'The same of servers that no conductor knows, and what could not be removed: it is left '
    'alone and should be looked at', 'what')

STATE_BACKUP_AGE = Watched(
    'nova_state_backup_age_seconds', 'Time since the newest nightly backup of the control plane, infinite before the '
    'first one', combine=max)

# ---- the process

INFO = _metric(prometheus_client.Gauge, 'nova_build_info', '1; its labels say what runs here',
               ('binary', 'version', 'thread_model'))
HEALTHY = Watched(
    'nova_healthy', '1 while everything of this process is alive, as /healthz answers; else 0', combine=min)
prometheus_client.ProcessCollector(registry=REGISTRY)
prometheus_client.PlatformCollector(registry=REGISTRY)


for _how in ('crashed', 'failed', 'paused'):         # a rule sees no increase of a series that begins at 1
    GUESTS_FAILED.labels(_how)
for _what in ('guest', 'files', 'shared_files', 'kept', 'coming'):
    STRAYS_REMOVED.labels(_what)


def describe_process(binary: str, thread_model: Any) -> None:
    INFO.labels(binary, importlib.metadata.version('nova'), thread_model).set(1)


def values() -> list[dict[str, Any]]:
    """All metrics as they are now: name, kind, text, and samples of {name, labels, value}. Of a histogram only its
    count and its sum, since its buckets are many. JSON has no infinite number: such a sample is left out.
    """
    return [{'name': family.name, 'kind': family.type, 'text': family.documentation,
             'samples': [{'name': sample.name, 'labels': sample.labels, 'value': sample.value}
                         for sample in family.samples
                         if not sample.name.endswith('_bucket') and math.isfinite(sample.value)]}
            for family in REGISTRY.collect()]


def exposed(accept: str = '') -> tuple[Any, Any]:
    """(body, content type) of everything, in the format that an Accept header prefers."""
    encode, content_type = exposition.choose_encoder(accept)
    return encode(REGISTRY), content_type


def exposed_of_all(texts: dict[str, str], accept: str = '') -> tuple[bytes, str]:
    """As ``exposed``, of several processes: every sample has a label ``worker``. This process has '0'.

    :param texts: what ``exposed`` gave in the others, in the classic format, by the value of their label
    :raises ValueError: a text is no such thing
    """
    families: dict[str, metrics_core.Metric] = {}
    for worker, found in [('0', REGISTRY.collect()),
                          *((worker, parser.text_string_to_metric_families(text)) for worker, text in texts.items())]:
        for family in found:
            kept = families.setdefault(family.name, metrics_core.Metric(family.name, family.documentation,
                                                                        family.type))
            kept.samples += [sample._replace(labels={**sample.labels, 'worker': worker}) for sample in family.samples]
    encode, content_type = exposition.choose_encoder(accept)
    return encode(_Collected(list(families.values()))), content_type


class _Collected(prometheus_client.CollectorRegistry):
    """Families that were collected already."""

    def __init__(self, families: list[metrics_core.Metric]) -> None:
        super().__init__()
        self._families = families

    def collect(self) -> Iterator[metrics_core.Metric]:
        return iter(self._families)
