"""Queues of a process: one row for each place where requests, messages or jobs wait, with its bounds.

The reference page is generated from the rows. The names of rows are labels of the metrics ``nova_queue_waiting`` and
``nova_queue_running``.
"""
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from nova.runtime import metrics

Owner = TypeVar('Owner')


class Queue(NamedTuple):
    """One kind of queue.

    name      label of the metrics
    what      what waits or runs
    classes   paths of the classes that implement the queue, without ``nova.``
    running   maximum number of concurrent items: an option or a number
    waiting   maximum number of waiting items
    order     order in which waiting work starts, and fairness between projects or clients
    """

    name: str
    what: str
    classes: str
    running: str
    waiting: str
    order: str


class Size(NamedTuple):
    """Current size of a queue."""

    waiting: int
    running: int


_COST = 'projects by recent cost'
HTTP = Queue(
    'http', 'requests of the HTTP servers', 'runtime.http.priorities.Dispatcher',
    '[http] threads, with reserved threads for each priority',
    'connections: 4000, 256 of one client; requests with a thread: 512, 256 of one project',
    f'by priority; clients round-robin; {_COST}')
RPC = Queue(
    'rpc', 'messages of RPC servers', 'rpc.priorities.Pools, runtime.fairness.FairExecutor',
    'executor_thread_pool_size; methods with a separate limit: at_once',
    '2000 of the common pool, then the prefetch count of each queue; broker: the rest. No limit: rabbit://, at_once',
    _COST)
TASKS = Queue(
    'tasks', 'tasks of servers on a compute host', 'compute.queue.TaskQueue, runtime.fairness.FairExecutor',
    'max_concurrent_builds, max_concurrent_tasks; 4 volume copies; 1 task per server',
    'the servers of the host: a task state allows one task', f'tasks of a server in order; {_COST}')
LIVE_MIGRATIONS = Queue(
    'live_migrations', 'outgoing live migrations of a compute host', 'runtime.fairness.FairQueue',
    'max_concurrent_live_migrations', 'the servers of the host', 'first in, first out')
VOLUMES = Queue(
    'volumes', 'copies of embedded volumes, snapshots and backups',
    'volume.store.jobs.VolumeJobs, runtime.fairness.FairExecutor', '5; 1 per volume', 'the rows that are in progress',
    _COST)
HASHES = Queue(
    'password_hashes', 'hashes of passwords', 'identity.hashing.HashPool', 'half of the processors',
    'three quarters of [http] threads', 'addresses round-robin; if full, the longest queue loses its last caller')
BATCHES = Queue(
    'batches', 'calls that one thread runs together',
    'runtime.batching.Batch and CoalescedRun, network.agents.batched_calls.BatchedCalls',
    '1 batch of each kind, of 64 to 500 calls', 'the threads of the callers', 'first in, first out')
CALLBACKS = Queue(
    'commit_callbacks', 'notifications until the end of their transaction', 'runtime.commits.OrderedCallbacks',
    '1', 'the transactions in progress', 'in the order of the commits of a server')
EVENT_STREAMS = Queue(
    'event_streams', 'open event streams of the compute API', 'runtime.fairness.ConcurrencyLimit',
    '[api] event_streams; half of one project', '0: refused', '')
PREFER_WAIT = Queue(
    'prefer_wait', 'requests with Prefer: wait', 'api.prefer_wait.PreferWait, runtime.fairness.ConcurrencyLimit',
    'a quarter of [http] threads; half of one project', '0: answered at once', '')
CONSOLES = Queue(
    'console_sessions', 'console sessions of a proxy', 'runtime.fairness.ConcurrencyLimit',
    '[console] max_sessions; half of one project', '0: refused', '')
EC2_WAITS = Queue(
    'ec2_waits', 'requests of the EC2 API that wait for a state', 'runtime.fairness.ConcurrencyLimit',
    '8; half of one project', '0: answered at once', '')
EC2_IMPORTS = Queue(
    'ec2_imports', 'imports of image bundles', 'runtime.fairness.ConcurrencyLimit', '2',
    '8; half of one project; more are refused', '')
IMAGE_IMPORTS = Queue(
    'image_imports', 'downloads of images', 'image.embedded.imports.Imports, runtime.fairness.FairQueue', '4',
    '64; half of one project; more are refused', _COST)
NOTIFICATIONS = Queue(
    'notifications', 'notifications that wait for their broker', 'notify.Notifier', '1',
    '10000: more are dropped', 'first in, first out')
BUILDS = Queue(
    'builds', 'servers that wait to be built', 'api.build_admission.BuildAdmission', '-',
    '[api] max_waiting_builds; three quarters of one project', 'refused with Retry-After')
ROWS = (HTTP, RPC, TASKS, LIVE_MIGRATIONS, VOLUMES, HASHES, BATCHES, CALLBACKS, EVENT_STREAMS, PREFER_WAIT, CONSOLES,
        EC2_WAITS, EC2_IMPORTS, IMAGE_IMPORTS, NOTIFICATIONS, BUILDS)


def watch(queue: Queue, owner: Owner, size: Callable[[Owner], Size]) -> None:
    """Add an object to the metrics of a queue until the object is deleted.

    :param size: ``size(owner)``; it must not block
    """
    metrics.QUEUE_WAITING.watch(owner, lambda each: {(queue.name,): size(each).waiting})
    metrics.QUEUE_RUNNING.watch(owner, lambda each: {(queue.name,): size(each).running})
