"""drain versions, waivers, acknowledgements, attestations, activity; removals per node

Revision ID: 0003
Revises: 0002
"""

from datetime import UTC

import sqlalchemy as sa

from alembic import op

revision = '0003'
down_revision = '0002'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('activity',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('deployment_id', sa.Integer(), nullable=True),
    sa.Column('at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('actor', sa.String(length=200), nullable=False),
    sa.Column('action', sa.String(length=60), nullable=False),
    sa.Column('subject', sa.String(length=200), nullable=False),
    sa.Column('detail', sa.JSON(), nullable=False),
    sa.ForeignKeyConstraint(['deployment_id'], ['deployment.id'], name=op.f('fk_activity_deployment_id'), ondelete='SET NULL'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_activity'))
    )
    op.create_index('ix_activity_at', 'activity', ['at'], unique=False)
    op.create_index('ix_activity_deployment_id_at', 'activity', ['deployment_id', 'at'], unique=False)

    op.create_table('drain_version',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('deployment_id', sa.Integer(), nullable=False),
    sa.Column('drain_id', sa.Integer(), nullable=False),
    sa.Column('version', sa.Integer(), nullable=False),
    sa.Column('spec', sa.JSON(), nullable=False),
    sa.Column('criteria_digest', sa.String(length=24), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('actor', sa.String(length=200), nullable=False),
    sa.ForeignKeyConstraint(['deployment_id'], ['deployment.id'], name=op.f('fk_drain_version_deployment_id'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['drain_id'], ['drain.id'], name=op.f('fk_drain_version_drain_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_drain_version')),
    sa.UniqueConstraint('drain_id', 'version', name=op.f('uq_drain_version_drain_id_version'))
    )

    op.create_table('waiver',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('deployment_id', sa.Integer(), nullable=False),
    sa.Column('drain_id', sa.Integer(), nullable=False),
    sa.Column('batch', sa.String(length=32), nullable=False),
    sa.Column('thread_id', sa.String(length=255), nullable=False),
    sa.Column('thread_created_at', sa.DateTime(timezone=True), nullable=False),
    *_said(),
    sa.ForeignKeyConstraint(['deployment_id'], ['deployment.id'], name=op.f('fk_waiver_deployment_id'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['drain_id'], ['drain.id'], name=op.f('fk_waiver_drain_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_waiver'))
    )
    op.create_index('ix_waiver_deployment_id_drain_id', 'waiver', ['deployment_id', 'drain_id', 'thread_id'], unique=False)

    op.create_table('acknowledgement',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('deployment_id', sa.Integer(), nullable=False),
    sa.Column('drain_id', sa.Integer(), nullable=True),
    sa.Column('batch', sa.String(length=32), nullable=False),
    sa.Column('thread_id', sa.String(length=255), nullable=True),
    sa.Column('tasks', sa.JSON(), nullable=False),
    sa.Column('code', sa.String(length=40), nullable=True),
    *_said(),
    sa.ForeignKeyConstraint(['deployment_id'], ['deployment.id'], name=op.f('fk_acknowledgement_deployment_id'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['drain_id'], ['drain.id'], name=op.f('fk_acknowledgement_drain_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_acknowledgement'))
    )
    op.create_index('ix_acknowledgement_deployment_id_thread_id', 'acknowledgement', ['deployment_id', 'thread_id'], unique=False)

    op.create_table('attestation',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('deployment_id', sa.Integer(), nullable=False),
    sa.Column('drain_id', sa.Integer(), nullable=False),
    sa.Column('name', sa.String(length=200), nullable=False),
    sa.Column('owner', sa.String(length=100), nullable=False),
    sa.Column('reason', sa.String(length=500), nullable=True),
    sa.Column('until', sa.DateTime(timezone=True), nullable=True),
    sa.Column('criteria_version', sa.Integer(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('actor', sa.String(length=200), nullable=False),
    sa.Column('ended_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['deployment_id'], ['deployment.id'], name=op.f('fk_attestation_deployment_id'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['drain_id'], ['drain.id'], name=op.f('fk_attestation_drain_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_attestation'))
    )
    op.create_index('ix_attestation_drain_id', 'attestation', ['drain_id'], unique=False)

    op.create_index('ix_thread_classes', 'thread', ['deployment_id', 'graph_id', 'head_graph_id', 'condition', 'work_id', 'row_shape_id', 'state_shape_id', 'revision_id', 'routes_id', 'status', 'reading_is_current', 'state_read_at', 'state_updated_at', 'updated_at', 'created_at', 'assistant_id', 'thread_id'], unique=False)
    op.add_column('alarm', sa.Column('acknowledged_at', sa.DateTime(timezone=True), nullable=True))
    op.add_column('drain', sa.Column('removed', sa.JSON(), nullable=True))
    _carry_over()
    _dont_cascade()
    with op.batch_alter_table('drain', schema=None) as batch_op:
        batch_op.alter_column('removed', existing_type=sa.JSON(), nullable=False)
        batch_op.drop_column('removed_at')


def _dont_cascade() -> None:
    """SQLite makes the table anew: where it enforced foreign keys, dropping the old one would delete what refers to it."""
    connection = op.get_bind()
    if connection.dialect.name == 'sqlite' and connection.exec_driver_sql('PRAGMA foreign_keys').scalar():
        raise RuntimeError('foreign keys must not be enforced while this migration runs')


def _said() -> list[sa.Column]:
    return [
        sa.Column('owner', sa.String(length=100), nullable=False),
        sa.Column('reason', sa.String(length=500), nullable=False),
        sa.Column('until', sa.DateTime(timezone=True), nullable=True),
        sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
        sa.Column('actor', sa.String(length=200), nullable=False),
        sa.Column('ended_at', sa.DateTime(timezone=True), nullable=True),
    ]


def _carry_over() -> None:
    """Each drain's criteria of today become its current version, and its removal that of each of its nodes."""
    connection = op.get_bind()
    when = sa.DateTime(timezone=True)
    drain = sa.table('drain', sa.column('id'), sa.column('deployment_id'), sa.column('spec', sa.JSON),
        sa.column('criteria_digest'), sa.column('criteria_version'), sa.column('managed_by_file', sa.Boolean),
        sa.column('created_at', when), sa.column('removed_at', when), sa.column('removed', sa.JSON))
    version = sa.table('drain_version', sa.column('deployment_id'), sa.column('drain_id'), sa.column('version'),
        sa.column('spec', sa.JSON), sa.column('criteria_digest'), sa.column('created_at', when), sa.column('actor'))
    for row in connection.execute(sa.select(drain)).all():
        connection.execute(sa.insert(version).values(deployment_id=row.deployment_id, drain_id=row.id,
            version=row.criteria_version, spec=row.spec, criteria_digest=row.criteria_digest,
            created_at=row.created_at, actor='settings file' if row.managed_by_file else 'unknown'))
        removed = {}
        if row.removed_at is not None:
            at = row.removed_at.replace(tzinfo=UTC) if row.removed_at.tzinfo is None else row.removed_at.astimezone(UTC)
            removed = {f"node:{target['name']}": at.isoformat() for target in row.spec['targets'] if target['kind'] == 'node'}
        connection.execute(sa.update(drain).where(drain.c.id == row.id).values(removed=removed))


def downgrade() -> None:
    op.drop_index('ix_thread_classes', table_name='thread')
    op.add_column('drain', sa.Column('removed_at', sa.DateTime(timezone=True), nullable=True))
    op.drop_column('drain', 'removed')  # in place, on SQLite too
    op.drop_column('alarm', 'acknowledged_at')
    for name in ('attestation', 'acknowledgement', 'waiver', 'drain_version', 'activity'):
        op.drop_table(name)
