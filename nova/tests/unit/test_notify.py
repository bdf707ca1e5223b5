"""The notifier: what waits, what is dropped, what fails; and that nobody waits for it."""
import threading
import time

import pytest

from nova import actions
from nova import conf as nova_conf
from nova import exception
from nova import notify
from nova.notify import events
from nova.notify import payloads
from nova.rpc import bus
from nova.tests import server_rows
from nova.tests.support.notify import CTX
from nova.tests.support.notify import Sender
from nova.tests.support.waiting import wait_for


def made(form='both', **options):
    conf = nova_conf.new(files=[], host='h', **{f'notifications__{name}': value for name, value in options.items()})
    senders = {each: Sender() for each in ('versioned', 'unversioned') if form in (each, 'both')}
    return notify.Notifier(conf, senders), senders


def configured(**options):
    conf = nova_conf.new(files=[])
    bus.register_options(conf)
    for name, value in options.items():
        conf.set_override(name, value, group='oslo_messaging_notifications')
    return conf


@pytest.mark.parametrize('driver', [[], ['noop'], ['']])
def test_notifications_are_off_without_a_driver(driver):
    assert notify.new(configured(driver=driver)) is notify.OFF
    assert not notify.wanted(configured(driver=driver)) and not notify.OFF.on


def test_a_driver_that_needs_a_broker_needs_its_address():
    with pytest.raises(exception.InvalidInput, match='transport_url'):
        notify.new(configured(driver=['messagingv2']))
    assert notify.wanted(configured(driver=['messagingv2']))


@pytest.mark.parametrize('form, forms', [('both', {'versioned', 'unversioned'}), ('versioned', {'versioned'}),
                                         ('unversioned', {'unversioned'})])
def test_notification_format_option_selects_the_senders(form, forms):
    conf = configured(driver=['log'])
    conf.set_override('notification_format', form, group='notifications')
    assert set(notify.new(conf)._senders) == forms


def test_versioned_and_unversioned_forms_describe_one_event():
    notifier, senders = made()
    notifier.publish(CTX, 'instance.reboot', events.ERROR, server_rows.row(), 'host9',
                  fault={'code': 500, 'message': 'no', 'details': 'VirtError: no\n'})
    wait_for(lambda: not notifier.waiting)
    level, publisher, event_type, ctx, payload = senders['versioned'].sent[0]
    assert (level, publisher, event_type) == ('error', 'nova-compute:host9', 'instance.reboot.error')
    assert payload['nova_object.name'] == 'InstanceActionPayload'
    assert payload['nova_object.data']['fault']['nova_object.data']['exception'] == 'VirtError'
    level, publisher, event_type, _ctx, payload = senders['unversioned'].sent[0]
    assert (level, publisher, event_type) == ('error', 'compute.host9', 'compute.instance.reboot.error')
    assert payload['exception'] == 'no' and payload['instance_flavor_id'] == '42'
    assert ctx['user_id'] == 'u' and 'canary' not in str(ctx)
    assert notifier.counts == {'sent': 2}


def test_an_event_that_the_older_form_has_at_the_end_alone():
    notifier, senders = made('unversioned')
    for phase in events.WITH_ERROR:
        notifier.publish(CTX, 'instance.volume_attach', phase, server_rows.row(), volume_id='v')
    notifier.publish(CTX, 'instance.lock', None, server_rows.row())
    wait_for(lambda: not notifier.waiting)
    assert [(each[2], each[4]['volume_id']) for each in senders['unversioned'].sent] == [
        ('compute.instance.volume.attach', 'v')]


def test_a_broker_that_is_away_holds_nobody_up(monkeypatch):
    monkeypatch.setattr(notify, 'QUEUE', 5)
    notifier, senders = made('versioned')
    senders['versioned'].gate.clear()
    began = time.monotonic()
    for _ in range(20):
        notifier.publish(CTX, 'instance.lock', None, server_rows.row())
    assert time.monotonic() - began < 25             # the sender is held up for 30
    assert notifier.counts['dropped'] >= 14 and notifier.waiting <= 6        # one is in the sender's hands
    senders['versioned'].gate.set()
    wait_for(lambda: not notifier.waiting)
    assert notifier.counts['sent'] + notifier.counts['dropped'] == 20


def test_a_sender_that_fails_is_counted_and_goes_on():
    notifier, senders = made('versioned')
    senders['versioned'].failure = RuntimeError('canary')
    notifier.publish(CTX, 'instance.lock', None, server_rows.row())
    wait_for(lambda: notifier.counts['failed'] == 1)
    senders['versioned'].failure = None
    notifier.publish(CTX, 'instance.lock', None, server_rows.row())
    wait_for(lambda: notifier.counts['sent'] == 1)


def test_failed_notifications_are_counted():
    notifier, _senders = made('versioned')
    notifier.publish(CTX, 'instance.lock', None, {'uuid': 'a row without columns'})
    notifier.publish(CTX, 'instance.unknown', None, server_rows.row())
    wait_for(lambda: not notifier.waiting)
    assert notifier.counts == {'failed': 2}


def test_stop_sends_waiting_notifications():
    notifier, senders = made('versioned')
    for _ in range(10):
        notifier.publish(CTX, 'instance.lock', None, server_rows.row())
    notifier.stop(20)
    assert len(senders['versioned'].sent) == 10
    senders['versioned'].gate.clear()
    notifier.publish(CTX, 'instance.lock', None, server_rows.row())
    began = time.monotonic()
    notifier.stop(0.1)
    assert time.monotonic() - began < 25
    senders['versioned'].gate.set()


def test_payloads_have_no_field_that_lets_somebody_in():
    for name, payload in payloads.PAYLOADS.items():
        assert not {'admin_pass', 'admin_password', 'user_data', 'auth_token', 'connection_info', 'private_key',
                    'system_metadata'} & set(payload.fields), name


def test_every_row_names_a_payload_and_every_never_has_a_reason():
    for row in events.ROWS:
        assert row.payload in payloads.PAYLOADS and row.when.endswith('.'), row.name
    assert len(events.EVENTS) == len(events.ROWS)
    for name, reason in {**events.NEVER, **actions.NO_EVENT_REASONS}.items():
        assert name not in events.EVENTS and reason


def test_the_thread_ends_when_nothing_is_told_and_begins_again(monkeypatch):
    monkeypatch.setattr(notify, 'IDLE_S', 0.05)
    notifier, senders = made('versioned')
    for number in range(3):
        notifier.publish(CTX, 'instance.lock', None, server_rows.row())
        wait_for(lambda: notifier.counts['sent'] == number + 1 and notifier._thread is None)
    wait_for(lambda: not [thread for thread in threading.enumerate() if thread.name == 'notifications'
                       and thread.is_alive() and getattr(thread, '_target', None) == notifier._send_all])


def test_notifications_published_while_the_thread_ends_are_sent(monkeypatch):
    monkeypatch.setattr(notify, 'IDLE_S', 0)
    notifier, senders = made('versioned')
    row = server_rows.row()

    def work():
        for _ in range(50):
            notifier.publish(CTX, 'instance.lock', None, row)
            time.sleep(0)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for(lambda: not notifier.waiting)
    assert len(senders['versioned'].sent) == 200
