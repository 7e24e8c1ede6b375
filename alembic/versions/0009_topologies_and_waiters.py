"""topologies that are pushed, what a deploy did by comparison, and who waits on a gate

Revision ID: 0009
Revises: 0007
"""

import sqlalchemy as sa

from alembic import op

revision = '0009'
down_revision = '0007'
branch_labels = None
depends_on = None


def upgrade() -> None:

    op.create_table('topology',
    sa.Column('deployment_id', sa.Integer(), nullable=False),
    sa.Column('graph_id', sa.String(length=255), nullable=False),
    sa.Column('drawn', sa.String(length=16), nullable=False),
    sa.Column('content', sa.JSON(), nullable=False),
    sa.Column('pushed_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('actor', sa.String(length=200), nullable=False),
    sa.ForeignKeyConstraint(['deployment_id'], ['deployment.id'], name=op.f('fk_topology_deployment_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('deployment_id', 'graph_id', 'drawn', name=op.f('pk_topology'))
    )
    op.create_table('waiter',
    sa.Column('id', sa.String(length=32), nullable=False),
    sa.Column('deployment_id', sa.Integer(), nullable=False),
    sa.Column('drain_id', sa.Integer(), nullable=False),
    sa.Column('caller', sa.String(length=200), nullable=False),
    sa.Column('since', sa.DateTime(timezone=True), nullable=False),
    sa.Column('until', sa.DateTime(timezone=True), nullable=False),
    sa.Column('seen_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('asked', sa.Integer(), nullable=False),
    sa.Column('verdict', sa.String(length=10), nullable=False),
    sa.Column('outcome', sa.String(length=12), nullable=True),
    sa.Column('ended_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('ended_by', sa.String(length=200), nullable=True),
    sa.ForeignKeyConstraint(['deployment_id'], ['deployment.id'], name=op.f('fk_waiter_deployment_id'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['drain_id'], ['drain.id'], name=op.f('fk_waiter_drain_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_waiter'))
    )
    with op.batch_alter_table('waiter', schema=None) as batch_op:
        batch_op.create_index('ix_waiter_drain_id', ['drain_id', 'since'], unique=False)

    with op.batch_alter_table('deploy', schema=None) as batch_op:
        batch_op.add_column(sa.Column('comparison', sa.JSON(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table('deploy', schema=None) as batch_op:
        batch_op.drop_column('comparison')

    with op.batch_alter_table('waiter', schema=None) as batch_op:
        batch_op.drop_index('ix_waiter_drain_id')

    op.drop_table('waiter')
    op.drop_table('topology')
