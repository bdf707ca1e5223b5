"""What every filter is: a mask over the hosts, and a sentence about those that it removes."""
import numpy as np

from nova.scheduler import explain


class Filter:
    """See the package for what the attributes mean."""

    room = False
    forced = False
    rebuild = True

    def __init__(self, conf):
        self.conf = conf

    @property
    def name(self):
        return type(self).__name__

    def begin(self, cells):
        """Called once, before the first request, with the databases (db.cells.Cells)."""

    def mask(self, hosts, request):
        """An array of booleans; ``hosts.everything`` when nothing is asked that this filter judges by."""
        raise NotImplementedError

    def among(self, hosts, request, left):
        """The mask at the positions ``left``, None for all True."""
        mask = self.mask(hosts, request)
        return None if mask is hosts.everything else mask[left]

    @property
    def costly(self):
        """Whether it judges one host after the other, and is to be asked of few."""
        return type(self).among is not Filter.among

    def reason(self, hosts, request, removed):
        return f'does|do not pass {self.name}'

    def wants(self, spec):
        """Whether ``facts`` is needed for this request."""
        return False

    def facts(self, conn, spec):
        """What the database knows beside the table, a set; of several cells their union.

        Asked once a request, in each cell, and found as ``request.facts[name]``.
        """
        return frozenset()

    def outside(self, hosts, spec):
        """What somebody else knows beside the table; asked once a request, with no transaction open, as ``facts``."""
        return None

    def lacks(self, hosts, request, position):
        """What is against one host that it removes, for administrators."""
        return explain.conjugated(self.reason(hosts, request, np.array([position])), 1)

    def shortfall(self, hosts, request):
        """How far a host is from passing, where 1 is as far as can be: a number for each, or one for all."""
        return 1.0


class Remembered(Filter):
    """A filter whose answer depends on no usage: it is found out once for each thing that is asked for."""

    def key(self, request):
        """What of the request decides, hashable; None: it asks for nothing, and every host passes."""
        raise NotImplementedError

    def judge(self, hosts, request):
        """The mask, for a key that is not None."""
        raise NotImplementedError

    def mask(self, hosts, request):
        key = self.key(request)
        if key is None:
            return hosts.everything
        return hosts.once((self.name, key), lambda: self.judge(hosts, request))
