"""Tables of a cell's database for console access."""
from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from nova.db import types
from nova.db.tables.cell import cell_table

if TYPE_CHECKING:
    from nova.db.tables.rows import ConsoleAuthTokensRow

# tokens are stored only as hashes
console_auth_tokens: types.Table[ConsoleAuthTokensRow] = cell_table(
    'console_auth_tokens',
    sa.Column('token_hash', sa.String(64), primary_key=True),
    sa.Column('instance_uuid', sa.String(36), nullable=False),
    sa.Column('console_type', sa.String(16), nullable=False),
    sa.Column('instance_host', sa.String(255), nullable=False),      # the server's compute host at creation
    sa.Column('host', sa.String(255)),                               # address to which the proxy connects
    sa.Column('port', sa.Integer, nullable=False),
    sa.Column('tls_port', sa.Integer),
    sa.Column('internal_access_path', sa.String(255)),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('expires_at', types.DateTime, nullable=False),
    # project of the requesting user, for the audit of sessions
    sa.Column('project_id', sa.String(255)),
    sa.Column('user_id', sa.String(255)),
    sa.Column('secret', sa.String(255)),  # password of the console, encrypted with the token
    sa.Column('user_token_id', sa.String(64)),                       # id of the user token; this token ends with it
    sa.Column('user_token_ends_at', types.DateTime),
    sa.Column('user_claims', sa.Text),                               # claims of the user token; see tokens.text_of
    sa.Column('used_until', types.DateTime),                         # end of a session's lease, or NULL if never used
    sa.Index('ix_console_auth_tokens_instance', 'instance_uuid'),
    sa.Index('ix_console_auth_tokens_expires', 'expires_at'))
