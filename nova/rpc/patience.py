"""A client that asks again: a conductor or network service that restarts is waited for, and nothing fails for it.

The services do a request that comes twice once: an answer that was lost is given again.
"""
import time

from nova import exception

RETRIES = 8          # with pauses of 0.5 s, 1 s, 2 s, … 32 s


class Patient:
    """
    :param client: rpc client of an interface; its methods are this one's
    """

    def __init__(self, client):
        self.client = client

    def __getattr__(self, name):
        method = getattr(self.client, name)

        def send(*args, **kwargs):
            for attempt in range(RETRIES - 1):
                try:
                    return method(*args, **kwargs)
                except exception.Unavailable:
                    time.sleep(0.5 * 2 ** attempt)
            return method(*args, **kwargs)
        return send
