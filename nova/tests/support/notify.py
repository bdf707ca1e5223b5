"""What tests share with nova/tests/unit/test_notify.py."""
import threading

from nova import context

CTX = context.RequestContext(user_id='u', project_id='p', auth_token='canary', overwrite=False)


class Sender:
    """As oslo.messaging's notifier; ``gate`` holds it up, ``error`` is raised."""

    def __init__(self):
        self.sent, self.gate, self.failure, self._publisher = [], threading.Event(), None, None
        self.gate.set()

    def prepare(self, publisher_id):
        self._publisher = publisher_id
        return self

    def info(self, ctx, event_type, payload, level='info'):
        self.gate.wait(30)
        if self.failure:
            raise self.failure
        self.sent.append((level, self._publisher, event_type, ctx, payload))

    def error(self, ctx, event_type, payload):
        self.info(ctx, event_type, payload, 'error')
