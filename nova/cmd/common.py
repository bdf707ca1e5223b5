"""Common entry point of the daemons: thread model, configuration, log, parts, signals, exit code."""
from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from nova import exception
from nova.runtime import concurrency

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.db import engine
    from nova.runtime import service


def run(binary: str, parts: Callable[..., list[service.Part]], arguments: list[str] | None = None,
        split: Callable[[cfg.ConfigOpts], object] | None = None, workers: bool = False, **overrides: object) -> int:
    """Run a daemon until a signal stops it; return its exit code.

    :param parts: function(conf) -> parts of service.Process
    :param arguments: command line; None: the command line of this process
    :param split: function(conf) that forks the privileged process, called before threads and the log start; its result
        is the second argument of ``parts``
    :param workers: the daemon may have worker processes. The second argument of ``parts`` is then the
        workers.WorkerSockets of a worker, or None if this is the only process
    :param overrides: {option: value} for nova.conf.new
    """
    concurrency.setup()
    # import after the thread model is set
    from oslo_config import cfg
    from oslo_db import exception as db_exc

    from nova import conf as nova_conf
    from nova.runtime.diagnostics import debugger
    from nova.runtime import log
    from nova.runtime import metrics
    from nova.runtime import monitoring
    from nova.runtime import service
    from nova.runtime.hooks import stevedore as stevedore_hooks

    stevedore_hooks.search_once()
    os.umask(0o077)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)         # SIGHUP must not end the process before it has a handler
    try:
        conf = nova_conf.new(sys.argv[1:] if arguments is None else arguments, None, **overrides)
        more = [split(conf)] if split else []
        log.setup(conf, binary)
        debugger.connect(conf)
        if workers:
            process = _with_workers(conf, binary, parts)
        else:
            process = service.Process(conf, binary, parts(conf, *more))
            process.parts.insert(0, monitoring.Monitor(conf, process, binary))
        metrics.describe_process(binary, concurrency.model())
        return process.run()
    except exception.NovaException as error:
        return failed(binary, error)
    except cfg.Error as error:
        return failed(binary, error, 2)
    except db_exc.DBError as error:
        from nova.db import errors
        return failed(binary, f'The database cannot be used: {errors.reason(error)}')


def _with_workers(conf: cfg.ConfigOpts, binary: str, parts: Callable[..., list[service.Part]]) -> service.Process:
    """Return the service.Process for this process: the only process, the parent of workers, or a worker."""
    from nova.runtime import monitoring
    from nova.runtime import service
    from nova.runtime.http import workers

    worker = workers.inherited()
    if worker is not None:
        process = service.Process(conf, binary, [worker, *parts(conf, worker)], worker.notify)
        monitor = monitoring.Monitor(conf, process, binary, listener=worker.monitoring)
    elif conf.http.workers > 1:
        pool = workers.Pool(conf, binary)
        process = service.Process(conf, binary, [pool])
        monitor = monitoring.Monitor(conf, process, binary, pool.exposed)
    else:
        process = service.Process(conf, binary, parts(conf, None))
        monitor = monitoring.Monitor(conf, process, binary)
    process.parts.insert(0, monitor)
    return process


def failed(binary: str, error: BaseException | str, code: int = 1) -> int:
    """Print the reason of a failure; return the exit code."""
    print(f'{binary}: {error}', file=sys.stderr)
    return code


def api_db(conf: cfg.ConfigOpts) -> engine.Database:
    """Return the API database for a command.

    :raises DatabaseNotReady: a schema is not the one of this code
    """
    from nova.cloud import assembly
    return assembly.checked_databases(conf)[0]
