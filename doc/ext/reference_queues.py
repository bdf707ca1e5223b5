"""The page of queues, from the rows of nova/runtime/queues.py."""
import rst

from nova.runtime import queues


def page():
    lines = [*rst.heading('Queues'),
             'Each place where requests, messages or jobs wait, with its bounds. The metrics ``nova_queue_waiting`` '
             'and ``nova_queue_running`` have the name as the label ``queue``. '
             ':doc:`/adr/0030-share-one-fair-executor` says why a class is separate.']
    lines += rst.table(('Queue', 'Of', 'Runs at most', 'Waits at most', 'Order', 'Classes'), [
        (rst.literal(row.name), row.what, rst.escaped(row.running), rst.escaped(row.waiting), row.order,
         rst.escaped(row.classes)) for row in queues.ROWS], '12 18 20 20 15 15')
    return lines
