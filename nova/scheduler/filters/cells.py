"""The cells in which a server can be placed."""
from nova.scheduler.filters import base


class CellFilter(base.Remembered):
    """New servers go to the cells that are not disabled, those that had a place stay in theirs. It is always asked."""

    forced = True

    def key(self, request):
        return request.cell or request.closed or None

    def judge(self, hosts, request):
        if request.cell:
            return hosts.each('cell', request.cell.__eq__)
        return hosts.each('cell', lambda cell: cell not in request.closed)

    def reason(self, hosts, request, removed):
        return 'is|are in another cell' if request.cell else 'is|are in a disabled cell'


FILTERS = (CellFilter,)
