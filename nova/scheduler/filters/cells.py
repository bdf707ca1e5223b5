"""The cell in which a server can be placed."""
from nova.scheduler.filters import base


class CellFilter(base.Remembered):
    """Hosts of the cell that has the server's rows: those do not move to another one. It is always asked."""

    forced = True

    def key(self, request):
        return request.cell

    def judge(self, hosts, request):
        return hosts.each('cell', request.cell.__eq__)

    def reason(self, hosts, request, removed):
        return 'is|are in another cell'


FILTERS = (CellFilter,)
