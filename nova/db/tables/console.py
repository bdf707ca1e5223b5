"""Tables of a cell's database: who may look at consoles."""
import sqlalchemy as sa

from nova.db import types
from nova.db.tables.cell import metadata

# The token itself is nowhere: what it opens is found by its hash.
console_auth_tokens = sa.Table(
    'console_auth_tokens', metadata,
    sa.Column('token_hash', sa.String(64), primary_key=True),
    sa.Column('instance_uuid', sa.String(36), nullable=False),
    sa.Column('console_type', sa.String(16), nullable=False),
    sa.Column('instance_host', sa.String(255), nullable=False),      # the compute host that it was made for
    sa.Column('host', sa.String(255)),                               # where the proxy connects to
    sa.Column('port', sa.Integer, nullable=False),
    sa.Column('tls_port', sa.Integer),
    sa.Column('internal_access_path', sa.String(255)),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('expires_at', types.DateTime, nullable=False),
    sa.Column('project_id', sa.String(255)),                         # of the requesting user, for the audit of sessions
    sa.Column('user_id', sa.String(255)),
    sa.Column('secret', sa.String(255)),                             # the console's password, sealed with the token
    sa.Column('user_token_id', sa.String(64)),                       # of the user's token that ends it; NULL: none does
    sa.Column('user_token_ends_at', types.DateTime),
    sa.Column('user_claims', sa.Text),                               # of that token, see nova.identity.tokens.text_of
    sa.Column('used_until', types.DateTime),                         # while a proxy has a session; NULL: never used
    sa.Index('ix_console_auth_tokens_instance', 'instance_uuid'),
    sa.Index('ix_console_auth_tokens_expires', 'expires_at'),
    **types.TABLE_OPTIONS)
