"""What tests share with nova/tests/functional/test_message_signatures.py."""
import copy

import oslo_messaging
import pytest

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova.conductor import interface as conductor_interface
from nova.conductor.hosts import trusted_keys
from nova.db.services import message_keys
from nova.rpc import bus as rpc_bus
from nova.rpc import enrolment
from nova.runtime.hooks import oslo_messaging as messaging_hooks
from nova.tests import core

URL = 'fake:'


class Wire(messaging_hooks.Transport):
    """A transport of which somebody reads along: [(target, context, message)] as they are sent."""

    def __init__(self, of, keys):
        super().__init__(of, lambda target, ctxt, message: keys.signed(target.topic, target.server, ctxt, message))
        self.seen = []

    def send_as_it_is(self, target, ctxt, message, **options):
        return self._driver.send(target, copy.deepcopy(ctxt), copy.deepcopy(message), **options)

    def _send(self, target, ctxt, message, **options):
        ctxt = self._context(target, ctxt, message)
        self.seen.append((target, copy.deepcopy(ctxt), copy.deepcopy(message)))
        return self._driver.send(target, ctxt, message, **options)


class Fleet:
    def __init__(self, path, mode, url=URL):
        self.path, self.mode, self.url = path, mode, url
        self.core = core.Cloud(path, ('host1', 'host2'))
        self.exchange, self.servers, self.buses = f'x{id(self)}', [], []
        self.control = self._bus('control')
        trusted_keys.TrustedKeys(self.core.api_db).use(self.control.signatures)
        self.control.signatures.enrolling = 'enroll_host'
        self.serve(self.control, conductor_interface.INTERFACE, self.core.conductor, 'control',
                   self.core.conductor.admission())
        self.hosts = {}

    def _bus(self, name, **options):
        conf = nova_conf.new(files=[], state_path=str(self.path / name), messages__signatures=self.mode, **options)
        rpc_bus.register_options(conf)
        conf.set_override('control_exchange', self.exchange)
        made = rpc_bus.Bus(conf, self.url)
        self.buses.append(made)
        made.pins.learn({})
        made._transport = Wire(made._transport, made.signatures)
        return made

    def serve(self, bus, interface, manager, name, admission=None):
        server = bus.serve(interface, manager, name, admission)
        server.start()
        self.servers.append(server)

    def host(self, name, token=None, state=None):
        """(bus, enrolment) of a compute host, whose key is not known yet."""
        path = self.path / f'{state or name}.token'
        if token:
            path.write_text(token + '\n')
        bus = self._bus(state or name, **({'messages__join_token_file': str(path)} if token else {}))
        sending = bus.of_host(name)
        made = enrolment.Enrolment(sending_conf(bus), bus.signatures, name, sending.client(
            conductor_interface.INTERFACE))
        self.hosts[name] = sending
        return sending, made

    def joined(self, name):
        """A bus of a host that has joined with a token."""
        bus, part = self.host(name, self.token())
        part.start()
        part.stop(0)
        return bus, part

    def token(self, valid=600):
        return self.core.api_db.run(message_keys.new_token, valid)

    def rows(self):
        with self.core.api_db.reader() as conn:
            return [(row['host'], row['state']) for row in message_keys.of_hosts(conn)]

    def close(self):
        for server in self.servers:
            server.stop()
            server.wait(10)
        for bus in self.buses:
            bus.close()
        self.core.close()


def sending_conf(bus):
    return bus._transport.conf


def conductor_of(bus):
    return bus.client(conductor_interface.INTERFACE)


def ask(bus, host='host1'):
    return conductor_of(bus).instances_on_host(context.admin_context(), host=host)


def refused(function, match):
    with pytest.raises(exception.MessageRefused, match=match):
        function()


def refused_raw(bus, target, ctxt, message, match):
    with pytest.raises(exception.MessageRefused, match=match):
        bus._transport.send_as_it_is(target, ctxt, message, wait_for_reply=True, timeout=10)


def ignored_raw(bus, target, ctxt, message):
    """Nobody works on a copy, and nobody answers it: the first one has its answer, or gets it still."""
    with pytest.raises(oslo_messaging.MessagingTimeout):
        bus._transport.send_as_it_is(target, ctxt, message, wait_for_reply=True, timeout=1)
