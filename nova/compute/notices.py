"""What is done to a server outside of any task, told by way of a conductor: a host holds no account of a broker of
notifications, and not all that is told of a server.
"""
import contextlib
import logging

from nova import exception
from nova import notify
from nova.notify.events import END
from nova.notify.events import START

LOG = logging.getLogger(__name__)


class Notices:
    """The part of the compute's manager that tells; mixed into it."""

    def init_notices(self):
        self._tells = notify.wanted(self.conf)

    @contextlib.contextmanager
    def told(self, ctx, instance, event):
        """Tell that an event of notify.events begins and, when the block ends well, that it has ended."""
        self._tell(ctx, instance, event, START)
        yield
        self._tell(ctx, instance, event, END)

    def _tell(self, ctx, instance, event, phase):
        if not self._tells:
            return
        try:
            # once, without patience: what is told must not delay what is done
            self.conductor.client.notify(ctx, instance_uuid=instance.uuid, event=event, phase=phase, host=self.host)
        except exception.NovaException as error:
            LOG.warning('%s.%s of server %s is not told: %s', event, phase, instance.uuid, error)
