"""An oslo.messaging driver for tests around a real one: messages come twice, late, and in another order.

``nova-disorder:///name`` is around the in-process driver, ``nova-disorder-rabbit://…`` around that of RabbitMQ. What
a broker may do after a lost connection happens all the time: a cast or a call is delivered a second time, at once or
after what came behind it; a cast is held back while later ones pass. The query of the URL says how often:

    nova-disorder:///name?doubled=0.2&late=0.2&longest=0.5&seed=1

doubled   probability that a message is delivered twice
late      probability that it is held back
longest   seconds that it, or its second copy, is held back at most

oslo.messaging finds it by the entry point in nova/tests/plugins, which ``register`` puts on the path; other processes
need that directory in PYTHONPATH.
"""
import copy
import importlib
import pathlib
import queue
import random
import sys
import threading
import time

from oslo_messaging._drivers import base
from stevedore import driver
from stevedore import extension

PLUGINS = pathlib.Path(__file__).parent / 'plugins'
INNER = {'nova-disorder': 'nova-inprocess', 'nova-disorder-rabbit': 'nova-rabbit'}
DRIVERS = 'oslo.messaging.drivers'
DEFAULTS = {'doubled': '0.2', 'late': '0.2', 'longest': '0.5', 'seed': '0'}


def register():
    """Let this process find the driver."""
    if str(PLUGINS) not in sys.path:
        sys.path.append(str(PLUGINS))
        importlib.invalidate_caches()
        extension.ExtensionManager.ENTRY_POINT_CACHE.pop(DRIVERS, None)      # whoever looked before found less


class Driver(base.BaseDriver):
    """See the module's docstring.

    counts    {'doubled': messages, 'late': messages} so far
    """

    def __init__(self, conf, url, default_exchange=None, allowed_remote_exmods=None):
        super().__init__(conf, url, default_exchange, allowed_remote_exmods)
        options = {**DEFAULTS, **url.query}
        self._rng, self._lock = random.Random(options['seed']), threading.Lock()
        self._odds = {name: float(options[name]) for name in ('doubled', 'late')}
        self._longest = float(options['longest'])
        self.counts = {'doubled': 0, 'late': 0}
        inner = copy.copy(url)
        inner.transport = INNER[url.transport]
        inner.query = {name: value for name, value in url.query.items() if name not in DEFAULTS}
        self._driver = driver.DriverManager(
            DRIVERS, inner.transport, invoke_on_load=True, invoke_args=(conf, inner), invoke_kwds={
                'default_exchange': default_exchange, 'allowed_remote_exmods': allowed_remote_exmods}).driver

    def _happens(self, what):
        """How long the message is held back, None when nothing happens to it."""
        with self._lock:
            if self._rng.random() >= self._odds[what]:
                return None
            self.counts[what] += 1
            return self._rng.uniform(0, self._longest)

    def send(self, target, ctxt, message, wait_for_reply=None, **more):
        def deliver(after=0):
            time.sleep(after)
            return self._driver.send(target, copy.deepcopy(ctxt), copy.deepcopy(message),
                                     wait_for_reply=wait_for_reply, **more)
        again, late = self._happens('doubled'), self._happens('late')
        if wait_for_reply and again is not None:
            return _first(deliver, again, late or 0)
        if again is not None:
            _aside(deliver, again)
        if late is None or wait_for_reply:
            return deliver(late or 0)
        _aside(deliver, late)
        return None

    def require_features(self, **features):
        self._driver.require_features(**features)

    def send_notification(self, *arguments, **more):
        return self._driver.send_notification(*arguments, **more)

    def listen(self, *arguments, **more):
        return self._driver.listen(*arguments, **more)

    def listen_for_notifications(self, *arguments, **more):
        return self._driver.listen_for_notifications(*arguments, **more)

    def cleanup(self):
        self._driver.cleanup()


def _first(function, *arguments):
    """The result of whichever call ends first, one for each argument: the receiver answers one of two copies only."""
    ended = queue.SimpleQueue()

    def run(argument):
        try:
            ended.put((function(argument), None))
        except BaseException as error:
            ended.put((None, error))
    for argument in arguments:
        threading.Thread(target=run, args=(argument,), daemon=True).start()
    result, error = ended.get()
    if error is not None:
        raise error
    return result


def _aside(function, *arguments):
    """Call it in a thread; nobody is told how it ended, as nobody is of a copy that a broker delivers."""
    def run():
        try:
            function(*arguments)
        except Exception:               # the receiver's refusal, or the broker is gone meanwhile
            return
    threading.Thread(target=run, daemon=True).start()
