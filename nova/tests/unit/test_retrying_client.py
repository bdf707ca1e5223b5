"""Who asks a conductor again, and how long."""
import pytest

from nova import exception
from nova.rpc import retrying_client


class Clock:
    """The time module of a process that sleeps without waiting; each question takes ``answers_s``."""

    def __init__(self, answers_s):
        self.now, self.answers_s = 0, answers_s

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class Service:
    def __init__(self, clock, errors):
        self.clock, self.errors, self.asked = clock, list(errors), 0

    def method(self):
        self.asked += 1
        self.clock.now += self.clock.answers_s
        if self.errors:
            raise self.errors.pop(0)
        return 'done'


def ask(monkeypatch, errors, answers_s=0):
    """(how often it was asked, seconds that took, what came of it)."""
    clock = Clock(answers_s)
    monkeypatch.setattr(retrying_client, 'time', clock)
    service = Service(clock, errors)
    try:
        result = retrying_client.RetryingClient(service, 'conductor').method()
    except exception.Unavailable as error:
        result = type(error)
    return service.asked, clock.now, result


LOST = exception.ServiceUnavailable(service='conductor')


def test_a_conductor_that_does_not_answer_is_waited_for(monkeypatch):
    assert ask(monkeypatch, [LOST] * 7) == (8, 63.5, 'done')
    assert ask(monkeypatch, [LOST] * 9) == (8, 63.5, exception.ServiceUnavailable)


@pytest.mark.parametrize('error', [exception.ServiceUnavailable(service='scheduler'), exception.Unavailable('Cinder')])
def test_unavailable_third_service_is_retried_briefly(monkeypatch, error):
    assert ask(monkeypatch, [error] * 2) == (3, 1.5, 'done')


@pytest.mark.parametrize('error', [exception.ServiceUnavailable(service='scheduler'), exception.Unavailable('Cinder')])
def test_a_relayed_timeout_is_not_retried_for_minutes(monkeypatch, error):
    """A conductor that waits a minute itself, for a service behind it, is asked once."""
    assert ask(monkeypatch, [error] * 9, answers_s=60)[:2] == (1, 60)
    times, took, result = ask(monkeypatch, [error] * 9)
    assert took < 20 and times == 6 and result is type(error)


def test_another_host_that_is_away_is_an_answer(monkeypatch):
    assert ask(monkeypatch, [exception.HostUnavailable(host='h')]) == (1, 0, exception.HostUnavailable)


def test_one_server_may_be_meant():
    class Client:
        def method(self, **arguments):
            return arguments
    client = retrying_client.RetryingClient(Client(), 'network', 'host1')
    assert client.method(host='host1') == {'server': 'host1', 'host': 'host1'}
    assert retrying_client.RetryingClient(Client(), 'network').method(host='host1') == {'host': 'host1'}
