"""which poll made a tombstone, and up to which poll an acknowledgement speaks: clocks go back, polls are counted

Revision ID: 0019
Revises: 0018
"""

import sqlalchemy as sa

from alembic import op

revision = '0019'
down_revision = '0018'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('thread', sa.Column('gone_poll_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=True))
    op.add_column('acknowledgement', sa.Column('poll_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=True))


def downgrade() -> None:
    op.drop_column('acknowledgement', 'poll_id')
    op.drop_column('thread', 'gone_poll_id')
