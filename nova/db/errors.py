"""What a driver's errors mean: to be run again, or nobody is there who writes.

oslo.db knows most of them, and looks here for these, which it would take for a mistake of ours: the user got a 500.
"""
import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_db.sqlalchemy import exc_filters

# A server that was the primary until a moment ago, or is being looked after: as if the connection were lost, so that
# the next one is made anew and finds who is the primary now.
READ_ONLY = (r'(?is).*(\b(1290|1792|1836)\b.*read.only|in a read-only transaction|not currently accepting connections|'
             r'database system is (starting up|shutting down|in recovery))')


# libpq's words since PostgreSQL 14
NOBODY = r'(?s).*connection to server .*(failed|closed)'
# The same of MariaDB, which says why it takes no connection: too many, a wrong password, another's database, a wrong
# host. Commands and daemons ended with a traceback.
REFUSED = r'(?s).*\((1040|1044|1045|1129|1130|1203|1226|1698), '


@exc_filters.filters('sqlite', sa.exc.OperationalError, r'.*database (table )?is locked')
@exc_filters.filters('postgresql', sa.exc.OperationalError,
                     r'(?s).*(canceling statement due to lock timeout|could not serialize access)')
def _run_again(error, match, engine_name, is_disconnect):
    raise db_exc.DBDeadlock(error)


def _away(error, match, engine_name, is_disconnect):
    raise db_exc.DBConnectionError(error)


exc_filters.filters('postgresql', sa.exc.OperationalError, NOBODY)(_away)
exc_filters.filters('mysql', sa.exc.OperationalError, REFUSED)(_away)
for _dialect in ('mysql', 'postgresql', 'sqlite'):
    for _kind in (sa.exc.OperationalError, sa.exc.InternalError):
        exc_filters.filters(_dialect, _kind, READ_ONLY)(_away)


def reason(error):
    """What the database says, in one line, without the statement and its values: SQLAlchemy puts them behind it."""
    return (str(getattr(error, 'inner_exception', None) or error).splitlines() or [type(error).__name__])[0]
