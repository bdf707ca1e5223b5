"""Events of libvirt about guests: which of them are counted as failures."""
import pytest

libvirt = pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova.runtime import concurrency
from nova.runtime import metrics
from nova.tests.support import waiting
from nova.virt.libvirt import host as hosts

UUID = '11111111-2222-3333-4444-555555555555'


class Domain:
    """A libvirt.virDomain of an event."""

    def UUIDString(self):
        return UUID


@pytest.fixture
def host():
    seen = []
    made = hosts.Host('nothing:///', '/nowhere', seen.append)
    made.seen, made._mailbox = seen, concurrency.Mailbox()          # without a connection: only events come
    concurrency.spawn('libvirt-events', made._listen)
    yield made
    made.close()


@pytest.mark.parametrize('event, detail, how', [
    (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED, 'crashed'),
    (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED, 'failed'),
    (libvirt.VIR_DOMAIN_EVENT_SUSPENDED, libvirt.VIR_DOMAIN_EVENT_SUSPENDED_IOERROR, 'paused'),
    (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN, None),
    (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_DESTROYED, None),
    (libvirt.VIR_DOMAIN_EVENT_SUSPENDED, libvirt.VIR_DOMAIN_EVENT_SUSPENDED_PAUSED, None)])
def test_guests_that_fail_are_counted(host, event, detail, how):
    def counts():
        return {name: metrics.GUESTS_FAILED.labels(name)._value.get() for name in ('crashed', 'failed', 'paused')}
    before = counts()
    hosts._lifecycle(None, Domain(), event, detail, host._mailbox)
    waiting.wait_for(lambda: UUID in host.seen, 30, 'the event')
    assert {name for name, count in counts().items() if count > before[name]} == ({how} if how else set())
