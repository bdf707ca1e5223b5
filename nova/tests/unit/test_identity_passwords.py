"""Hashes of passwords, and the count of failed logins."""
import time

import pytest

from nova import exception
from nova.embedded.identity import ratelimit
from nova.identity import passwords


def test_the_whole_of_a_long_password_counts():
    stored = passwords.hashed('x' * 100 + 'a', 4)
    assert passwords.matches('x' * 100 + 'a', stored, 4)
    assert not passwords.matches('x' * 100 + 'b', stored, 4)


def test_a_nul_does_not_end_a_password():
    stored = passwords.hashed('a\0b', 4)
    assert passwords.matches('a\0b', stored, 4)
    assert not passwords.matches('a\0c', stored, 4)


def test_hashes_are_salted_slow_and_hide_the_password():
    one, two = passwords.hashed('secret', 5), passwords.hashed('secret', 5)
    assert one != two and one.startswith('$2b$05$') and 'secret' not in one


def test_nobody_has_no_password():
    assert not passwords.matches('', None, 4)
    assert not passwords.matches('x', None, 4)


def test_an_unknown_user_takes_as_long_as_a_known_one():
    stored = passwords.hashed('right', 8)

    def best_of(secret):
        times = []
        for _ in range(7):
            start = time.perf_counter()
            passwords.matches('wrong', secret, 8)
            times.append(time.perf_counter() - start)
        return min(times)
    assert 0.5 < best_of(None) / best_of(stored) < 2


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def limited(limit, key):
    try:
        limit.check(key)
    except exception.TooManyRequests as error:
        return error.kwargs['retry_after']
    return None


def test_failures_lock_one_key_until_the_window_ends():
    clock = Clock()
    limit = ratelimit.LoginLimit(3, 60, clock)
    for _ in range(3):
        assert limited(limit, 'a') is None
        limit.failed('a')
    clock.now += 20
    assert limited(limit, 'a') == 40
    assert limited(limit, 'b') is None
    clock.now += 40
    assert limited(limit, 'a') is None
    limit.failed('a')
    assert limited(limit, 'a') is None       # a new window


def test_success_forgets_the_failures():
    limit = ratelimit.LoginLimit(2, 60)
    limit.failed('a')
    limit.succeeded('a')
    limit.failed('a')
    assert limited(limit, 'a') is None


def test_the_number_of_counters_is_bounded(monkeypatch):
    monkeypatch.setattr(ratelimit, 'MAX_KEYS', 10)
    limit = ratelimit.LoginLimit(1, 60)
    for number in range(30):
        limit.failed(number)
    assert len(limit._counts) == 10
    assert limited(limit, 29) and limited(limit, 0) is None


@pytest.mark.parametrize('address, counts_as', [
    ('192.0.2.7', '192.0.2.7'), ('2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'), ('', ''), ('unix:', 'unix:')])
def test_an_ipv6_host_counts_by_its_network(address, counts_as):
    assert ratelimit.source(address) == counts_as
