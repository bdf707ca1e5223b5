"""Steps of a script with their times, shown as tools/lib.sh shows them. Standard library only."""
import concurrent.futures
import threading
import time

TICK_S = 10
ERRORS = (RuntimeError, OSError)


def step(what, function, *arguments, errors=ERRORS):
    """Do it and say how long it took, with a dot every 10 s; what the function returns.

    :raises SystemExit: it failed with one of these errors; the text is the reason
    """
    return _shown(what, lambda: _timed(function, arguments), errors)


def concurrently(*rows, errors=ERRORS):
    """Do these at the same time; each has its line with its own time. Return the results of the functions in a list.

    :param rows: as the positional arguments of ``step``
    :raises SystemExit: as there; the others have ended by then
    """
    with concurrent.futures.ThreadPoolExecutor(len(rows)) as pool:
        running = [(what, pool.submit(_timed, function, arguments)) for what, function, *arguments in rows]
        return [_shown(what, future.result, errors) for what, future in running]


def _timed(function, arguments):
    begin = time.monotonic()
    result = function(*arguments)
    return result, time.monotonic() - begin


def _shown(what, outcome, errors):
    """
    :param outcome: a function that gives a result and its seconds
    """
    ended = threading.Event()
    print(f'  {what:<58}', end='', flush=True)
    threading.Thread(target=_tick, args=(ended,), daemon=True).start()
    try:
        result, seconds = outcome()
    except errors as error:
        print(' failed', flush=True)
        raise SystemExit(f"\n'{what}' failed: {error}") from None
    finally:
        ended.set()
    print(f' {seconds:6.1f} s', flush=True)
    return result


def _tick(ended):
    while not ended.wait(TICK_S):
        print('.', end='', flush=True)
