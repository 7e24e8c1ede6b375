"""storage that was read before it was told whether a state is stored whole is read again

Revision ID: 0017
Revises: 0016
"""

from alembic import op

revision = '0017'
down_revision = '0016'
branch_labels = None
depends_on = None

_DOES_NOT_SAY = "cast(routes.content AS text) NOT LIKE '%\"nameless\"%'"


def upgrade() -> None:
    op.execute(
        'UPDATE thread SET routes_id = NULL WHERE routes_id IS NOT NULL AND EXISTS (SELECT 1 FROM routes '
        'WHERE routes.deployment_id = thread.deployment_id AND routes.id = thread.routes_id '
        f'AND {_DOES_NOT_SAY})'
    )


def downgrade() -> None:
    """What was forgotten is read again."""
