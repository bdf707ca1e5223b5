"""What tests share with nova/tests/functional/test_outside_services.py."""
import threading

from nova import context
from nova import manager
from nova.rpc.interface import Interface
from nova.rpc.interface import Method

COUNTER = Interface('counter', '1.0', Method('add', ('number',), call=True))


class CounterManager(manager.Manager):
    """The example: it counts what others send, and what its hooks and tasks did."""

    interface = COUNTER

    def __init__(self, **collaborators):
        super().__init__(service_name='counter', **collaborators)
        self.total, self.calls, self.ran = 0, [], threading.Event()

    def init_host(self):
        self.calls.append('init_host')

    def pre_start_hook(self):
        self.calls.append('pre_start_hook')

    def post_start_hook(self):
        self.calls.append(('post_start_hook', self.bus.client(COUNTER).add(context.admin_context(), number=0)))

    def cleanup_host(self):
        self.calls.append('cleanup_host')

    def add(self, context, number):
        self.total += number
        return self.total

    @manager.periodic_task(spacing=0.05)
    def report(self, context):
        assert context.is_admin
        self.ran.set()

    @manager.periodic_task
    def seldom(self, context):
        self.calls.append('seldom')
