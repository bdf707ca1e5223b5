"""Tables of the audit log, in the API database and in each cell database. A record is in the database to which the
recorded request writes.
"""
import sqlalchemy as sa

from nova.db import types
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell


def _records(metadata: sa.MetaData) -> sa.Table:
    """Define the table of records. A record describes a request, its caller and its result, but contains no bodies.

    ``seq`` and ``digest`` are NULL until the record is sealed. A sealed record does not change.
    """
    text = sa.String(255)
    return sa.Table(
        'audit_records', metadata,
        sa.Column('id', types.Number, primary_key=True),
        sa.Column('uuid', sa.String(36), nullable=False),
        sa.Column('created_at', types.DateTime, nullable=False),
        sa.Column('request_id', text),
        sa.Column('user_id', text),
        sa.Column('project_id', text),
        sa.Column('domain_id', text),
        sa.Column('roles', text),
        sa.Column('credential_id', text),                  # application credential or trust of the token
        sa.Column('service_user_id', text),                # service that sent the request for the user
        sa.Column('remote_address', text),
        sa.Column('method', sa.String(16), nullable=False),
        sa.Column('route', text, nullable=False),
        sa.Column('action', text, nullable=False),
        sa.Column('target_type', text),
        sa.Column('target_id', text),
        sa.Column('target_part', text),                    # part of the target: id of a volume, an interface, …
        sa.Column('outcome', sa.String(16), nullable=False),
        sa.Column('code', sa.Integer),
        sa.Column('reason', text),
        sa.Column('seq', sa.BigInteger),
        sa.Column('digest', sa.String(64)),
        sa.Index('uniq_audit_records_uuid', 'uuid', unique=True),
        sa.Index('uniq_audit_records_seq', 'seq', unique=True),
        sa.Index('ix_audit_records_project', 'project_id', 'created_at'),
        sa.Index('ix_audit_records_created', 'created_at'),
        sa.Index('ix_audit_records_action', 'action', 'seq'),
        **types.TABLE_OPTIONS)


def _chain(metadata: sa.MetaData) -> sa.Table:
    """Define the table with one row, which has ``seq`` and ``digest`` of the newest sealed record. Sealing locks it."""
    return sa.Table(
        'audit_chain', metadata,
        sa.Column('id', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column('seq', sa.BigInteger, nullable=False),
        sa.Column('digest', sa.String(64), nullable=False),
        sa.Column('sealed_at', types.DateTime, nullable=False),
        **types.TABLE_OPTIONS)


records, chain = _records(tables_api.metadata), _chain(tables_api.metadata)
_records(tables_cell.metadata)
_chain(tables_cell.metadata)
