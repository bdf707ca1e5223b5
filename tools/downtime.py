"""Measure how long an API is away: the longest time between two answers, until SIGTERM.

usage: downtime.py URL AUTHORITY        AUTHORITY: file of the certificate authority of an https URL

Prints the seconds with one decimal. Requests that wait count as well as those that fail. Standard library only.
"""
import http.client
import signal
import ssl
import sys
import time
import urllib.request

PAUSE_S, TIMEOUT_S = 0.05, 60


class Meter:
    """Longest time between two answers.

    :param ask: function that asks once, and raises OSError without an answer
    :param clock: function that returns seconds
    """

    def __init__(self, ask, clock=time.monotonic):
        self._ask, self._clock, self._answered, self._longest = ask, clock, clock(), 0.0

    def probe(self):
        """Ask once."""
        try:
            self._ask()
        except (OSError, http.client.HTTPException):
            return
        self._longest, self._answered = self.seconds, self._clock()

    @property
    def seconds(self):
        """Longest time between two answers. A time that has not ended counts."""
        return max(self._longest, self._clock() - self._answered)


def asking(url, authority):
    """Return a function that asks a URL.

    :raises OSError: by the function, without an answer in TIMEOUT_S or with an error of the server
    """
    handlers = [urllib.request.ProxyHandler({})]
    if url.startswith('https'):
        handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=authority)))
    opener = urllib.request.build_opener(*handlers)

    def ask():
        with opener.open(url, timeout=TIMEOUT_S) as answer:
            answer.read()
    return ask


def main():
    meter = Meter(asking(*sys.argv[1:3]))

    def end(_number, _frame):
        print(f'{meter.seconds:.1f}', flush=True)
        sys.exit(0)
    signal.signal(signal.SIGTERM, end)
    while True:
        meter.probe()
        time.sleep(PAUSE_S)


if __name__ == '__main__':
    main()
