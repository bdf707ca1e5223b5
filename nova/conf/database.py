"""[database]: the cell's database."""
from oslo_config import cfg

GROUP = 'database'


def options(default_file: str) -> list[cfg.Opt]:
    return [
        cfg.StrOpt('connection', secret=True,
                   help='SQLAlchemy URL: sqlite:///…, mysql+pymysql://… or postgresql+psycopg2://…; '
                        'mysql+mysqldb://… is faster, but needs native threads. '
                        f'Default: SQLite file {default_file} below the state path.'),
        cfg.IntOpt('max_pool_size', default=40, min=1, max=1000,
                   help='Maximum number of connections that one process keeps open for reuse. Opening a connection '
                        'costs far more than a statement. With a database server, half of them serve read-only '
                        'transactions.'),
        cfg.IntOpt('max_overflow', default=10, min=0, max=1000,
                   help='Maximum number of additional connections under load.'),
    ]


OPTIONS = options('cell1.sqlite')
