"""What tests share with nova/tests/unit/test_rpc.py."""
import itertools
import threading
import uuid

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova.rpc import bus
from nova.rpc.interface import Interface
from nova.rpc.interface import Method

ECHO = Interface('echo', '1.2',
                 Method('echo', ('value',), call=True),
                 Method('seen_by', ('value',), call=True),
                 Method('whoami', (), call=True),
                 Method('fail', ('kind',), call=True),
                 Method('slow', ('seconds',), call=True, timeout=0.2),
                 Method('long', ('seconds',), call=True),
                 Method('remember', ('value',)),
                 Method('newer', (), call=True, since='1.2'))

_names = itertools.count()


class Full(exception.VirtError, template='%(what)s is full.'):
    """An error of a class that only the server knows."""


class Manager:
    def __init__(self, name='a'):
        self.name = name
        self.remembered = []
        self.event, self.go = threading.Event(), threading.Event()

    def echo(self, context, value):
        return value

    def seen_by(self, context, value):
        value['seen'] = True
        return self.name

    def whoami(self, context):
        return context.to_dict()

    def fail(self, context, kind):
        if kind == 'domain':
            raise exception.InstanceInvalidState(instance_id='i', method='stop', attr='vm_state', state='paused')
        if kind == 'foreign':
            raise Full(what='The pool vms')
        raise ZeroDivisionError('secret-canary')

    def slow(self, context, seconds):
        self.go.wait(seconds)
        self.event.set()
        return 'late'

    long = slow

    def remember(self, context, value):
        self.remembered.append(value)
        self.event.set()

    def newer(self, context):
        return 'new'


def make_bus(name=None):
    name = name or f'test{next(_names)}'
    return bus.Bus(nova_conf.new(files=[]), f'nova-inprocess:///{name}')


CONTEXT = context.RequestContext(user_id='u', project_id='p', roles=['member'], overwrite=False,
                                 request_id='req-' + str(uuid.uuid4()), remote_address='192.0.2.1')
