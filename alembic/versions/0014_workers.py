"""the queue of the workers, and which workers there are

The queue's tables are Procrastinate's own, and on PostgreSQL only.

Revision ID: 0014
Revises: 0013
"""

import sqlalchemy as sa

from alembic import op
from app.inventory import queue_schema

revision = '0014'
down_revision = '0013'
branch_labels = None
depends_on = None

QUEUE_SCHEMA = '03.04.00_50_post_add_retry_failed_job_procedure'


def upgrade() -> None:
    op.create_table('worker',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('name', sa.String(length=100), nullable=False),
    sa.Column('concurrency', sa.Integer(), nullable=False),
    sa.Column('started_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('seen_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('ended_at', sa.DateTime(timezone=True), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_worker'))
    )
    with op.batch_alter_table('worker', schema=None) as batch_op:
        batch_op.create_index('ix_worker_seen_at', ['seen_at'], unique=False)
    queue_schema.bring_to(op.get_bind(), QUEUE_SCHEMA)


def downgrade() -> None:
    queue_schema.remove(op.get_bind())
    op.drop_table('worker')
