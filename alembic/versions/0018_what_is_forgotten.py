"""what is over is forgotten after a while: ways to find it, and since when threads may have been forgotten; whose rules proved what

Revision ID: 0018
Revises: 0017
"""

import sqlalchemy as sa

from alembic import op

revision = '0018'
down_revision = '0017'
branch_labels = None
depends_on = None

_IS_GONE = sa.text('gone_at IS NOT NULL')


def upgrade() -> None:
    op.add_column('deployment', sa.Column('forgotten_since', sa.DateTime(timezone=True), nullable=True))
    op.add_column('deployment', sa.Column('rules', sa.Integer(), nullable=True))
    op.create_index('ix_thread_gone', 'thread', ['deployment_id', 'gone_at'], unique=False, sqlite_where=_IS_GONE, postgresql_where=_IS_GONE)
    op.create_index('ix_observation_deployment_id_arrived_poll_id', 'observation', ['deployment_id', 'arrived_poll_id'], unique=False)


def downgrade() -> None:
    op.drop_index('ix_observation_deployment_id_arrived_poll_id', table_name='observation')
    op.drop_index('ix_thread_gone', table_name='thread')
    with op.batch_alter_table('deployment') as batch:
        batch.drop_column('rules')
        batch.drop_column('forgotten_since')
