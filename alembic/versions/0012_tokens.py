"""API tokens

Revision ID: 0012
Revises: 0011
"""

import sqlalchemy as sa

from alembic import op

revision = '0012'
down_revision = '0011'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('api_token',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('digest', sa.String(length=64), nullable=False),
    sa.Column('name', sa.String(length=100), nullable=False),
    sa.Column('rights', sa.JSON(), nullable=False),
    sa.Column('deployments', sa.JSON(none_as_null=True), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('expires_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('last_used_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('revoked_at', sa.DateTime(timezone=True), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_api_token')),
    sa.UniqueConstraint('digest', name=op.f('uq_api_token_digest'))
    )
    op.create_index('ix_api_token_name', 'api_token', ['name'], unique=False)


def downgrade() -> None:
    op.drop_index('ix_api_token_name', table_name='api_token')
    op.drop_table('api_token')
