"""which server the threads of a deployment are of

Revision ID: 0013
Revises: 0012
"""

import sqlalchemy as sa

from alembic import op

revision = '0013'
down_revision = '0012'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('deployment', sa.Column('source', sa.JSON(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table('deployment') as batch:
        batch.drop_column('source')
