"""how far a sweep got, how far idle heads are verified, and how fast the server may be asked

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa

from alembic import op

revision = '0007'
down_revision = '0006'
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ('sweep_mark', 'verification', 'pace'):
        op.add_column('deployment', sa.Column(name, sa.JSON(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table('deployment') as batch:
        for name in ('pace', 'verification', 'sweep_mark'):
            batch.drop_column(name)
