"""Steps of a script with their times, shown as tools/lib.sh shows them. Standard library only."""
import threading
import time

TICK_S = 10


def step(what, function, *arguments, errors=(RuntimeError, OSError)):
    """Do it and say how long it took, with a dot every 10 s; what the function returns.

    :raises SystemExit: it failed with one of these errors; the text is the reason
    """
    begin, ended = time.monotonic(), threading.Event()
    print(f'  {what:<58}', end='', flush=True)
    threading.Thread(target=_tick, args=(ended,), daemon=True).start()
    try:
        result = function(*arguments)
    except errors as error:
        print(' failed', flush=True)
        raise SystemExit(f"\n'{what}' failed: {error}") from None
    finally:
        ended.set()
    print(f' {time.monotonic() - begin:6.1f} s', flush=True)
    return result


def _tick(ended):
    while not ended.wait(TICK_S):
        print('.', end='', flush=True)
