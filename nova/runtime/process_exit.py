"""End a process that another process may have started."""
import os
import select
import signal
import time

POLL_S = 0.02


def end(pid: int, number: signal.Signals, timeout: float) -> bool:
    """Send a signal to a process and wait until it has exited. Return whether it has.

    An exiting process loses its command line and working directory in /proc before its sockets are closed. Only its
    pidfd tells when a successor can use its addresses.

    :param timeout: seconds
    """
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        exited = select.poll()
        exited.register(process, select.POLLIN)
        try:
            signal.pidfd_send_signal(process, number)
        except ProcessLookupError:                   # a zombie: its sockets are closed
            return True
        deadline = time.monotonic() + timeout
        while not exited.poll(0):                    # does not block, for services with green threads
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True
    finally:
        os.close(process)
