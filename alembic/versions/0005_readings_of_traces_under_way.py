"""readings of traces that are under way

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa

from alembic import op

revision = '0005'
down_revision = '0004'
branch_labels = None
depends_on = None


def upgrade() -> None:

    op.create_table('trace_reading',
    sa.Column('deployment_id', sa.Integer(), nullable=False),
    sa.Column('node', sa.String(length=255), nullable=False),
    sa.Column('exact', sa.Boolean(), nullable=False),
    sa.Column('since', sa.DateTime(timezone=True), nullable=False),
    sa.Column('reached', sa.DateTime(timezone=True), nullable=False),
    sa.Column('until', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['deployment_id'], ['deployment.id'], name=op.f('fk_trace_reading_deployment_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('deployment_id', 'node', name=op.f('pk_trace_reading'))
    )


def downgrade() -> None:

    op.drop_table('trace_reading')
