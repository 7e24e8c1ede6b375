"""what tells of a deployment without a server

Revision ID: 0011
Revises: 0009
"""

import sqlalchemy as sa

from alembic import op

revision = '0011'
down_revision = '0009'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('reporter',
    sa.Column('deployment_id', sa.Integer(), nullable=False),
    sa.Column('pass_id', sa.String(length=64), nullable=False),
    sa.Column('poll_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('graph_id', sa.String(length=255), nullable=False),
    sa.Column('topology_hash', sa.String(length=16), nullable=False),
    sa.Column('revision_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('saver', sa.String(length=100), nullable=False),
    sa.Column('langgraph_version', sa.String(length=40), nullable=False),
    sa.Column('lists', sa.String(length=8), nullable=False),
    sa.Column('began_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('told_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('ended_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('watermark', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['deployment_id'], ['deployment.id'], name=op.f('fk_reporter_deployment_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('deployment_id', name=op.f('pk_reporter'))
    )


def downgrade() -> None:
    op.drop_table('reporter')
