"""The page of metrics and of the ports that serve them, from nova/runtime/metrics.py and monitoring.py."""
import rst

from nova.runtime import metrics
from nova.runtime import monitoring


def page():
    lines = [*rst.heading('Metrics'),
             'Each daemon serves the metrics of its work to Prometheus: :doc:`../admin/metrics`. ``process_*`` and '
             '``python_info`` are those of the client library.',
             *rst.heading('Default ports', '-'),
             *rst.table(('Daemon', 'Port'), [(rst.literal(name), port) for name, port in monitoring.PORTS.items()]),
             *rst.heading('List', '-')]
    lines += rst.table(('Metric', 'Type', 'Labels', 'Meaning'), [
        (rst.literal(row.name), row.kind, ', '.join(map(rst.literal, row.labels)), rst.escaped(row.text))
        for row in metrics.ROWS], '34 10 18 38')
    return lines
