"""The page of metrics, from the rows of nova/runtime/metrics.py."""
import rst

from nova.runtime import metrics


def page():
    lines = [*rst.heading('Metrics'),
             'What every daemon reports of its own work to Prometheus; :doc:`../admin/metrics` says where. A daemon '
             'has those of its kind of work. ``process_*`` and ``python_info`` are those of the client library.']
    lines += rst.table(('Metric', 'Type', 'Labels', 'Meaning'), [
        (rst.literal(row.name), row.kind, ', '.join(map(rst.literal, row.labels)), rst.escaped(row.text))
        for row in metrics.ROWS], '34 10 18 38')
    return lines
