"""drawings by configuration, deploys as things

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa

from alembic import op

revision = '0002'
down_revision = '0001'
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), 'sqlite')


def upgrade() -> None:
    op.create_table('drawing',
    sa.Column('deployment_id', sa.Integer(), nullable=False),
    sa.Column('graph_id', sa.String(length=255), nullable=False),
    sa.Column('config', sa.String(length=32), nullable=False),
    sa.Column('assistant_id', sa.String(length=255), nullable=False),
    sa.Column('edited_at', sa.String(length=40), nullable=True),
    sa.Column('revision_id', BIG_ID, nullable=True),
    sa.Column('drawn_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['deployment_id'], ['deployment.id'], name=op.f('fk_drawing_deployment_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('deployment_id', 'graph_id', 'config', name=op.f('pk_drawing'))
    )
    op.create_table('deploy',
    sa.Column('id', BIG_ID, nullable=False),
    sa.Column('deployment_id', sa.Integer(), nullable=False),
    sa.Column('poll_id', BIG_ID, nullable=False),
    sa.Column('noticed_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('changes', sa.JSON(), nullable=False),
    sa.ForeignKeyConstraint(['deployment_id'], ['deployment.id'], name=op.f('fk_deploy_deployment_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_deploy'))
    )
    op.create_index('ix_deploy_deployment_id_id', 'deploy', ['deployment_id', 'id'], unique=False)
    op.create_table('deploy_thread',
    sa.Column('deployment_id', sa.Integer(), nullable=False),
    sa.Column('deploy_id', BIG_ID, nullable=False),
    sa.Column('thread_id', sa.String(length=255), nullable=False),
    sa.Column('node', sa.String(length=500), nullable=False),
    sa.Column('graph_id', sa.String(length=255), nullable=False),
    sa.ForeignKeyConstraint(['deployment_id'], ['deployment.id'], name=op.f('fk_deploy_thread_deployment_id'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['deploy_id'], ['deploy.id'], name=op.f('fk_deploy_thread_deploy_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('deployment_id', 'deploy_id', 'thread_id', 'node', name=op.f('pk_deploy_thread'))
    )
    op.add_column('graph_revision', sa.Column('variant', sa.String(length=32), nullable=True))
    op.add_column('thread', sa.Column('config', sa.String(length=32), nullable=True))
    op.create_index('ix_observation_deployment_id_node_left_at', 'observation', ['deployment_id', 'node', 'left_at'], unique=False)


def downgrade() -> None:
    op.drop_index('ix_observation_deployment_id_node_left_at', 'observation')
    with op.batch_alter_table('thread', schema=None) as batch_op:
        batch_op.drop_column('config')
    with op.batch_alter_table('graph_revision', schema=None) as batch_op:
        batch_op.drop_column('variant')
    op.drop_table('deploy_thread')
    op.drop_index('ix_deploy_deployment_id_id', 'deploy')
    op.drop_table('deploy')
    op.drop_table('drawing')
