"""traces and the application's thread index

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa

from alembic import op

revision = '0004'
down_revision = '0003'
branch_labels = None
depends_on = None


def upgrade() -> None:

    op.create_table('index_source',
    sa.Column('deployment_id', sa.Integer(), nullable=False),
    sa.Column('kind', sa.String(length=8), nullable=False),
    sa.Column('reading', sa.Integer(), nullable=False),
    sa.Column('snapshot', sa.String(length=64), nullable=True),
    sa.Column('as_of', sa.DateTime(timezone=True), nullable=True),
    sa.Column('tried_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('status', sa.String(length=12), nullable=False),
    sa.Column('sentence', sa.String(length=500), nullable=True),
    sa.Column('failing_since', sa.DateTime(timezone=True), nullable=True),
    sa.Column('malformed', sa.Integer(), nullable=False),
    sa.Column('duplicates', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['deployment_id'], ['deployment.id'], name=op.f('fk_index_source_deployment_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('deployment_id', name=op.f('pk_index_source'))
    )
    op.create_table('index_thread',
    sa.Column('deployment_id', sa.Integer(), nullable=False),
    sa.Column('thread_id', sa.String(length=255), nullable=False),
    sa.Column('graph_id', sa.String(length=255), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('closed_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('state_version', sa.Integer(), nullable=True),
    sa.Column('state', sa.String(length=100), nullable=True),
    sa.Column('reading', sa.Integer(), nullable=False),
    sa.Column('checked_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('found', sa.String(length=12), nullable=True),
    sa.ForeignKeyConstraint(['deployment_id'], ['deployment.id'], name=op.f('fk_index_thread_deployment_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('deployment_id', 'thread_id', name=op.f('pk_index_thread'))
    )
    with op.batch_alter_table('index_thread', schema=None) as batch_op:
        batch_op.create_index('ix_index_thread_deployment_id_checked_at', ['deployment_id', 'checked_at'], unique=False)
        batch_op.create_index('ix_index_thread_deployment_id_reading', ['deployment_id', 'reading'], unique=False)

    op.create_table('node_activity',
    sa.Column('deployment_id', sa.Integer(), nullable=False),
    sa.Column('node', sa.String(length=255), nullable=False),
    sa.Column('day', sa.DateTime(timezone=True), nullable=False),
    sa.Column('entered', sa.Integer(), nullable=False),
    sa.Column('finished', sa.Integer(), nullable=False),
    sa.Column('errored', sa.Integer(), nullable=False),
    sa.Column('joined', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['deployment_id'], ['deployment.id'], name=op.f('fk_node_activity_deployment_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('deployment_id', 'node', 'day', name=op.f('pk_node_activity'))
    )
    op.create_table('trace_coverage',
    sa.Column('deployment_id', sa.Integer(), nullable=False),
    sa.Column('node', sa.String(length=255), nullable=False),
    sa.Column('exact', sa.Boolean(), nullable=False),
    sa.Column('covered_from', sa.DateTime(timezone=True), nullable=False),
    sa.Column('covered_until', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['deployment_id'], ['deployment.id'], name=op.f('fk_trace_coverage_deployment_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('deployment_id', 'node', name=op.f('pk_trace_coverage'))
    )
    op.create_table('trace_run',
    sa.Column('deployment_id', sa.Integer(), nullable=False),
    sa.Column('run_id', sa.String(length=64), nullable=False),
    sa.Column('node', sa.String(length=255), nullable=False),
    sa.Column('thread_id', sa.String(length=36), nullable=True),
    sa.Column('trace_id', sa.String(length=64), nullable=True),
    sa.Column('started_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('ended_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('end', sa.String(length=8), nullable=False),
    sa.ForeignKeyConstraint(['deployment_id'], ['deployment.id'], name=op.f('fk_trace_run_deployment_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('deployment_id', 'run_id', name=op.f('pk_trace_run'))
    )
    with op.batch_alter_table('trace_run', schema=None) as batch_op:
        batch_op.create_index('ix_trace_run_deployment_id_node', ['deployment_id', 'node', 'started_at'], unique=False)
        batch_op.create_index('ix_trace_run_deployment_id_started_at', ['deployment_id', 'started_at'], unique=False)
        batch_op.create_index('ix_trace_run_deployment_id_thread_id', ['deployment_id', 'thread_id', 'started_at'], unique=False)

    op.create_table('trace_source',
    sa.Column('deployment_id', sa.Integer(), nullable=False),
    sa.Column('tried_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('status', sa.String(length=12), nullable=False),
    sa.Column('code', sa.String(length=40), nullable=True),
    sa.Column('sentence', sa.String(length=500), nullable=True),
    sa.Column('failing_since', sa.DateTime(timezone=True), nullable=True),
    sa.Column('project', sa.String(length=200), nullable=False),
    sa.Column('project_url', sa.String(length=500), nullable=True),
    sa.Column('project_began_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['deployment_id'], ['deployment.id'], name=op.f('fk_trace_source_deployment_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('deployment_id', name=op.f('pk_trace_source'))
    )

def downgrade() -> None:

    op.drop_table('trace_source')
    with op.batch_alter_table('trace_run', schema=None) as batch_op:
        batch_op.drop_index('ix_trace_run_deployment_id_thread_id')
        batch_op.drop_index('ix_trace_run_deployment_id_started_at')
        batch_op.drop_index('ix_trace_run_deployment_id_node')

    op.drop_table('trace_run')
    op.drop_table('trace_coverage')
    op.drop_table('node_activity')
    with op.batch_alter_table('index_thread', schema=None) as batch_op:
        batch_op.drop_index('ix_index_thread_deployment_id_reading')
        batch_op.drop_index('ix_index_thread_deployment_id_checked_at')

    op.drop_table('index_thread')
    op.drop_table('index_source')

