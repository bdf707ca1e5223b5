"""[database]: the cell's database."""
from oslo_config import cfg

GROUP = 'database'


def options(default_file: str) -> list[cfg.Opt]:
    return [
        cfg.StrOpt('connection', secret=True,
                   help='SQLAlchemy URL: sqlite:///…, mysql+pymysql://… or postgresql+psycopg2://…; '
                        'mysql+mysqldb://… is faster and for native threads alone. '
                        f'Default: {default_file} below the state path, in SQLite.'),
        cfg.IntOpt('max_pool_size', default=40, min=1, max=1000,
                   help='Connections kept open by one process, once it has needed them: to open one costs far more '
                        'than a statement. One half is for what is only read.'),
        cfg.IntOpt('max_overflow', default=10, min=0, max=1000,
                   help='Connections opened beyond the pool under load.'),
    ]


OPTIONS = options('cell1.sqlite')
