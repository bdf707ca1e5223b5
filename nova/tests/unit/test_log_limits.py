"""How much of the log unauthenticated callers fill."""
import logging

from oslo_context import context as oslo_context
import pytest

from nova import context
from nova.runtime import concurrency
from nova.runtime import log_limits


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


class Log(logging.Handler):
    """What a handler behind the limit gets."""

    def __init__(self):
        super().__init__()
        self.lines, self.later, self.clock = [], [], Clock()
        self.limit = log_limits.UnauthenticatedLimit(self.clock, lambda callback: self.later.append(callback) is None)
        self.addFilter(self.limit)

    def emit(self, record):
        self.lines.append(record.getMessage() + (record.exc_text or ''))


@pytest.fixture
def log():
    made, logger = Log(), logging.getLogger('nova.test_log_limits')
    logger.addHandler(made)
    logging.getLogger(log_limits.__name__).addHandler(made)
    yield made
    logger.removeHandler(made)
    logging.getLogger(log_limits.__name__).removeHandler(made)
    oslo_context._request_store.__dict__.pop('context', None)


def request(address, user_id=None):
    context.RequestContext(remote_address=address, user_id=user_id, overwrite=True)


def fail(times, text='Failed.'):
    """Log an unexpected error, as each bad request of a kind does."""
    for _ in range(times):
        try:
            raise ValueError('x' * 2500)
        except ValueError:
            logging.getLogger('nova.test_log_limits').exception(text)


def test_an_unauthenticated_address_fills_a_bounded_part_of_the_log(log):
    request('192.0.2.7')
    fail(1000)
    written = sum(len(line) + log_limits.OVERHEAD for line in log.lines)
    assert 2500 < written <= log_limits.BYTES and len(log.later) == 1
    kept = len(log.lines)
    log.later.pop()()
    told = log.lines.pop()
    assert told.startswith(f'{1000 - kept} log lines (') and 'from 192.0.2.7 were suppressed' in told
    log.clock.now += log_limits.PERIOD_S
    fail(1)
    assert len(log.lines) == kept + 1


def test_log_limit_of_an_address_does_not_limit_others(log):
    request('192.0.2.7')
    fail(100)
    kept = len(log.lines)
    request('192.0.2.8')
    fail(1)
    request('192.0.2.7', user_id='u')
    fail(20)
    request(None)                                # no request of a client
    fail(20)
    assert len(log.lines) == kept + 41


def test_a_caller_is_unbounded_once_he_is_known(log):
    request('192.0.2.7')
    fail(100)
    kept = len(log.lines)
    context.set_caller('u', 'p')
    fail(30)
    assert len(log.lines) == kept + 30


def test_addresses_are_counted_apart_up_to_a_number(log, monkeypatch):
    monkeypatch.setattr(log_limits, 'MAX_ADDRESSES', 3)
    for number in range(50):
        request(f'2001:db8:{number}::1')
        fail(1)
        request(f'2001:db8:{number}::2')         # of the same /64
        fail(1)
    assert len(log.limit._used) == 4 and log_limits.OTHERS in log.limit._used
    assert sum(len(line) + log_limits.OVERHEAD for line in log.lines) <= 4 * log_limits.BYTES
    log.later.pop()()
    assert log_limits.OTHERS in log.lines[-1]


def test_each_handler_gets_the_same_lines(log):
    other = Log()
    other.filters = log.filters
    logging.getLogger('nova.test_log_limits').addHandler(other)
    try:
        request('192.0.2.7')
        fail(100)
    finally:
        logging.getLogger('nova.test_log_limits').removeHandler(other)
    assert other.lines == log.lines and log.lines


def test_suppressed_lines_are_reported_after_a_shortage_of_threads(log, monkeypatch):
    """The record that had to start the thread raised RuntimeError in its request."""
    callbacks = []

    def spawn(_name, function):
        callbacks.append(function)
        if len(callbacks) < 3:
            raise RuntimeError("can't start new thread")
    monkeypatch.setattr(concurrency, 'spawn', spawn)
    log.limit._later = log_limits._later
    request('192.0.2.7')
    fail(100)
    assert len(callbacks) == 3
    monkeypatch.setattr(log_limits, 'PERIOD_S', 0)
    callbacks.pop()()
    assert 'were suppressed' in log.lines[-1]
