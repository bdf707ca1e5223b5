"""Hashes of passwords, and the count of failed logins."""
import time

import pytest

from nova import exception
from nova.identity import passwords
from nova.identity.embedded import ratelimit
from nova.runtime.http import addresses


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
    times = {None: [], stored: []}
    for _ in range(7):                   # in turn: the processor may be slower for a while
        for secret, took in times.items():
            start = time.thread_time()
            passwords.matches('wrong', secret, 8)
            took.append(time.thread_time() - start)
    assert 0.5 < min(times[None]) / min(times[stored]) < 2


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def wait_of(delays, user, address):
    """Seconds that a try would have to wait, 0 when it is looked at."""
    try:
        delays.check(user, address)
    except exception.TooManyRequests as error:
        return error.kwargs['retry_after']
    return 0


def guess(delays, clock, user, address, times):
    """The waits before each of so many wrong guesses, all of which are waited for."""
    waits = []
    for _ in range(times):
        waits.append(wait_of(delays, user, address))
        clock.now += waits[-1]
        delays.failed(user, address)
    return waits


def test_login_delays_grow_and_expire():
    clock = Clock()
    delays = ratelimit.LoginDelays(3, 300, clock)
    assert guess(delays, clock, 'u', 'a', 14) == [0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]
    assert wait_of(delays, 'u', 'b') == wait_of(delays, 'v', 'a') == 0
    for _ in range(20):
        assert wait_of(delays, 'u', 'a') == 60            # asking in vain makes it no longer
    clock.now += 60
    assert wait_of(delays, 'u', 'a') == 0
    delays.succeeded('u', 'a')
    assert guess(delays, clock, 'u', 'a', 4) == [0, 0, 0, 1]


def test_an_address_is_forgotten_after_its_login():
    delays = ratelimit.LoginDelays(3, 300)
    for number in range(100):
        delays.failed('me', f'192.0.2.{number}')
        delays.succeeded('me', f'192.0.2.{number}')
    assert delays._addresses == {}


def test_failed_logins_expire():
    clock = Clock()
    delays = ratelimit.LoginDelays(2, 60, clock)
    assert guess(delays, clock, 'u', 'a', 3) == [0, 0, 1]
    clock.now += 61
    assert guess(delays, clock, 'u', 'a', 3) == [0, 0, 1]


def test_guesses_from_many_addresses_wait_and_the_user_does_not():
    clock = Clock()
    delays = ratelimit.LoginDelays(4, 300, clock)
    delays.succeeded('u', 'home')
    for number in range(4):
        assert guess(delays, clock, 'u', f'bot{number}', 1) == [0]
    assert guess(delays, clock, 'u', 'bot9', 6) == [0, 1, 2, 4, 8, 16]       # one guess, then longer and longer
    waits = []
    for _ in range(9):                                     # all of them go on
        waits.append([wait_of(delays, 'u', f'bot{number}') for number in range(4)])
        clock.now += max(waits[-1])
        for number in range(4):
            delays.failed('u', f'bot{number}')
    assert waits[-1] == [256, 256, 256, 256]
    for address in ('home', 'never seen'):
        assert wait_of(delays, 'u', address) == 0          # who has not failed is asked for the password
    assert guess(delays, clock, 'u', 'home', 5) == [0, 0, 0, 0, 1]       # as if there were nobody else
    assert wait_of(delays, 'v', 'bot9') == 0


def test_the_number_of_counters_is_bounded(monkeypatch):
    monkeypatch.setattr(ratelimit, 'MAX_KEYS', 10)
    clock = Clock()
    delays = ratelimit.LoginDelays(1, 60, clock)
    for number in range(30):
        delays.failed('u', f'address{number}')
        delays.succeeded('u', f'own{number}')
        delays.failed(str(number), 'a')
    assert delays._names == sum(len(each.names) for each in delays._addresses.values()) == 10
    assert len(delays._known) == 10 >= len(delays._attacks) and len(delays._addresses) <= 11
    clock.now += 400
    delays.failed('u', 'another')
    assert delays._names == 1 and list(delays._addresses) == ['another']


@pytest.mark.parametrize('names', [10_400, 30])
@pytest.mark.parametrize('addresses_used', ['same', 'others'])
def test_invented_names_evict_no_lock_out(monkeypatch, names, addresses_used):
    """10,400 wrong codes for users that do not exist let the guesser of a user's code try again at once."""
    if names == 30:
        monkeypatch.setattr(ratelimit, 'MAX_KEYS', 10)
    clock = Clock()
    delays = ratelimit.LoginDelays(5, 300, clock)
    delays.succeeded('known', 'address0')
    assert guess(delays, clock, 'victim', 'guesser', 11)[-1] == 32
    assert guess(delays, clock, 'alone', 'second', 5) == [0] * 5
    before = wait_of(delays, 'victim', 'guesser'), wait_of(delays, 'alone', 'second')
    for number in range(names):
        delays.failed(f'invented{number}', 'guesser' if addresses_used == 'same' else f'address{number % 300}')
    assert (wait_of(delays, 'victim', 'guesser'), wait_of(delays, 'alone', 'second')) == before == (60, 1)
    assert wait_of(delays, 'known', 'address0') == 0           # has logged in from there
    if names == 30:                  # there is no place: new names of an address wait together, others do not
        assert wait_of(delays, 'new', 'elsewhere') == 0
        for number in range(6):
            delays.failed(f'more{number}', 'guesser')
        assert wait_of(delays, 'new', 'guesser') > 0


def test_names_beyond_those_of_one_address_are_one():
    clock = Clock()
    delays = ratelimit.LoginDelays(5, 300, clock)
    for number in range(ratelimit.MAX_NAMES):
        delays.failed(f'invented{number}', 'a')
    assert [wait_of(delays, f'more{number}', 'a') or delays.failed(f'more{number}', 'a') for number in range(7)] == [
        None] * 5 + [1, 1]
    assert wait_of(delays, 'more', 'b') == 0
    clock.now += 301
    assert wait_of(delays, 'more', 'a') == 0 == len(delays._addresses.get('a', ratelimit._Address()).names)


@pytest.mark.parametrize('address, counts_as', [
    ('192.0.2.7', '192.0.2.7'), ('::ffff:192.0.2.7', '192.0.2.7'), ('2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'),
    ('fe80::1%eth0', 'fe80::/64'), ('', ''), ('unix:', 'unix:')])
def test_an_address_counts_exactly_and_an_ipv6_host_by_its_network(address, counts_as):
    assert addresses.client(address) == counts_as
