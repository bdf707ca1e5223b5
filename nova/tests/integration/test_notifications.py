"""Notifications over a real RabbitMQ, read by oslo.messaging's own listener, as meters and billing systems do."""
import pathlib
import queue
import re
import subprocess
import sys
import textwrap
import time

import oslo_messaging
import pytest

from nova import conf as nova_conf
from nova import notify
from nova.rpc import bus
from nova.tests import server_rows
from nova.tests.support import waiting
from nova.tests.integration import servers
from nova.tests.support.notify import CTX


PAGE = pathlib.Path(__file__).resolve().parents[3] / 'doc/source/admin/notifications.rst'


@pytest.fixture(scope='module')
def broker():
    return servers.virtual_host()


class Listener:
    """An endpoint; ``heard`` has (level, publisher, event type, payload, context) of all that came."""

    def __init__(self, conf, *topics):
        self.heard = queue.Queue()
        # as other programs read them, with oslo.messaging's own driver
        transport = oslo_messaging.get_notification_transport(
            conf, conf.transport_url.replace(servers.BUS, 'rabbit', 1))
        self._server = oslo_messaging.get_notification_listener(
            transport, [oslo_messaging.Target(topic=topic) for topic in topics], [self], executor='threading')
        self._server.start()

    def info(self, ctxt, publisher_id, event_type, payload, metadata, level='info'):
        self.heard.put((level, publisher_id, event_type, payload, ctxt))

    def error(self, *args):
        self.info(*args, level='error')

    def stop(self):
        self._server.stop()
        self._server.wait()


def configured(url):
    conf = nova_conf.new(files=[], host='host1')
    bus.register_options(conf)
    conf.set_override('transport_url', url)
    conf.set_override('driver', ['messagingv2'], group='oslo_messaging_notifications')
    conf.set_override('notification_format', 'both', group='notifications')
    return conf


def test_both_forms_arrive(broker):
    conf = configured(broker.url)
    listeners = {topic: Listener(conf, topic) for topic in ('versioned_notifications', 'notifications')}
    notifier = notify.new(conf)
    try:
        row = server_rows.row()
        notifier.publish(CTX, 'instance.power_off', 'end', row, 'host1')
        fault = {'code': 500, 'message': 'no', 'details': ''}
        notifier.publish(CTX, 'instance.reboot', 'error', row, 'host1', fault=fault)
        for topic, publisher, prefix in (('versioned_notifications', 'nova-compute:host1', 'instance'),
                                         ('notifications', 'compute.host1', 'compute.instance')):
            heard = dict((each[2], each) for each in (listeners[topic].heard.get(timeout=60) for _ in range(2)))
            assert set(heard) == {f'{prefix}.power_off.end', f'{prefix}.reboot.error'}
            level, by, _type, payload, ctxt = heard[f'{prefix}.reboot.error']
            assert (level, by) == ('error', publisher)
            assert row['uuid'] in (payload.get('instance_id'), payload.get('nova_object.data', {}).get('uuid'))
            assert ctxt['user_id'] == 'u' and 'canary' not in str(ctxt)
    finally:
        notifier.stop()
        for listener in listeners.values():
            listener.stop()


@pytest.mark.skipif(not PAGE.exists(), reason='the documentation is not part of an installed nova')
@pytest.mark.parametrize('consumer_first', [True, False])
def test_documented_consumer_reads_events(consumer_first):
    """The consumer of admin/notifications.rst has the defaults of oslo.messaging, not those of nova."""
    url = servers.virtual_host().url
    code = textwrap.dedent(PAGE.read_text().partition('code-block:: python\n')[2].partition('\nQueues of')[0])
    code = re.sub(r"'rabbit://[^'?]+", f"'{url.replace(servers.BUS, 'rabbit', 1)}", code)
    code = 'import signal\nsignal.alarm(60)\n' + code.replace('listener.wait()', "print('started')\nlistener.wait()")
    row, notifier = server_rows.row(), notify.new(configured(url))
    if not consumer_first:
        notifier.publish(CTX, 'instance.lock', None, row)
        waiting.wait_for(lambda: notifier.counts['sent'], 60, 'the event to be sent')
    with subprocess.Popen([sys.executable, '-u', '-c', code], stdout=subprocess.PIPE, text=True) as consumer:
        try:
            assert consumer.stdout.readline() == 'started\n'
            if consumer_first:
                notifier.publish(CTX, 'instance.lock', None, row)
            assert consumer.stdout.readline() == f'instance.lock {row["uuid"]}\n'
        finally:
            consumer.kill()
            notifier.stop()


def test_a_broker_that_is_not_there_is_waited_for_and_holds_nobody_up(caplog):
    notifier = notify.new(configured(f'{servers.BUS}://nobody:x@127.0.0.1:{servers.free_port()}/'))
    began = time.monotonic()
    for _ in range(100):
        notifier.publish(CTX, 'instance.lock', None, server_rows.row())
    assert time.monotonic() - began < 60           # it would be for good
    waiting.wait_for(lambda: re.search('retrying in|Trying again', caplog.text), 60, 'an attempt to fail')
    assert notifier.waiting == 100 and not notifier.counts['sent']
    notifier.stop(0.1)
