"""What the counters of 1,000 servers cost: ADR 0032."""
import importlib.util
import pathlib

from nova.db import engine
from nova.db.tables import cell as tables_cell

SCRIPT = pathlib.Path(__file__).parents[3] / 'tools' / 'bench' / 'usage_counters.py'
MAX_SHARE = 0.01             # of a processor. Measured: 0.006
MAX_BYTES = 100e6            # Measured: 69e6
ATTEMPTS = 3                 # processor time grows when other tests share the caches


def test_a_thousand_servers_cost_one_percent_and_100_megabytes(tmp_path):
    spec = importlib.util.spec_from_file_location('usage_counters', SCRIPT)
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    shares = []
    for attempt in range(ATTEMPTS):
        db = engine.Database(f'sqlite:///{tmp_path}/{attempt}.sqlite')
        tables_cell.metadata.create_all(db.engine)
        cost = bench.measure(db, minutes=4)
        db.dispose()
        assert cost.stored_bytes <= MAX_BYTES
        shares.append(cost.message + cost.store)
        if shares[-1] <= MAX_SHARE:
            return
    raise AssertionError(shares)
