"""what receivers of webhooks were told, what is to be sent to them, and when a thread was last erased

Revision ID: 0015
Revises: 0014
"""

import sqlalchemy as sa

from alembic import op

revision = '0015'
down_revision = '0014'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('drain_told',
    sa.Column('drain_id', sa.Integer(), nullable=False),
    sa.Column('is_drained', sa.Boolean(), nullable=False),
    sa.Column('is_regressed', sa.Boolean(), nullable=False),
    sa.Column('is_stale', sa.Boolean(), nullable=False),
    sa.Column('told_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['drain_id'], ['drain.id'], name=op.f('fk_drain_told_drain_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('drain_id', name=op.f('pk_drain_told'))
    )
    op.create_table('delivery',
    sa.Column('id', sa.String(length=40), nullable=False),
    sa.Column('deployment_id', sa.Integer(), nullable=True),
    sa.Column('webhook', sa.String(length=100), nullable=False),
    sa.Column('event', sa.String(length=20), nullable=False),
    sa.Column('subject', sa.String(length=100), nullable=False),
    sa.Column('body', sa.Text(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('state', sa.String(length=10), nullable=False),
    sa.Column('attempts', sa.Integer(), nullable=False),
    sa.Column('next_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('status', sa.Integer(), nullable=True),
    sa.Column('problem', sa.String(length=20), nullable=True),
    sa.Column('ended_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['deployment_id'], ['deployment.id'], name=op.f('fk_delivery_deployment_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_delivery'))
    )
    op.create_index('ix_delivery_created_at', 'delivery', ['created_at', 'id'], unique=False)
    op.create_index('ix_delivery_webhook_state', 'delivery', ['webhook', 'state', 'next_at'], unique=False)
    op.add_column('deployment', sa.Column('erased_poll_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table('deployment') as batch:
        batch.drop_column('erased_poll_id')
    op.drop_index('ix_delivery_webhook_state', table_name='delivery')
    op.drop_index('ix_delivery_created_at', table_name='delivery')
    op.drop_table('delivery')
    op.drop_table('drain_told')
