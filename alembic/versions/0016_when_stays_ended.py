"""when a leaf that went on had gone on, by its checkpoints

Revision ID: 0016
Revises: 0015
"""

import sqlalchemy as sa

from alembic import op

revision = '0016'
down_revision = '0015'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('observation', sa.Column('ended_at', sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table('observation') as batch:
        batch.drop_column('ended_at')
