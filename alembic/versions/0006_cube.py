"""counts of threads by what they are, kept by triggers; when a thread's state changed as a column

Revision ID: 0006
Revises: 0005
"""

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from alembic import op

revision = '0006'
down_revision = '0005'
branch_labels = None
depends_on = None

EDGES = {'hour': timedelta(hours=1), 'day': timedelta(days=1), 'week': timedelta(days=7), 'month': timedelta(days=30),
    'quarter': timedelta(days=90)}
KEY = {
    'deployment_id': '{r}.deployment_id',
    'graph_id': "coalesce({r}.graph_id, '')",
    'head_graph_id': "coalesce({r}.head_graph_id, '')",
    'assistant_id': "coalesce({r}.assistant_id, '')",
    'status': '{r}.status',
    'condition': '{r}.condition',
    'work_id': '{r}.work_id',
    'row_shape_id': 'coalesce({r}.row_shape_id, -1)',
    'state_shape_id': 'coalesce({r}.state_shape_id, -1)',
    'revision_id': 'coalesce({r}.revision_id, -1)',
    'routes_id': 'coalesce({r}.routes_id, -1)',
    'reading_is_current': '{r}.reading_is_current',
    'is_read': '({r}.state_read_at IS NOT NULL)',
}
COLUMNS = ('graph_id', 'head_graph_id', 'assistant_id', 'status', 'condition', 'work_id', 'row_shape_id', 'state_shape_id',
    'revision_id', 'routes_id', 'reading_is_current', 'state_read_at', 'state_updated_at', 'updated_at')
NAMES = ', '.join((*KEY, 'age'))


def upgrade() -> None:
    postgresql = op.get_bind().dialect.name == 'postgresql'
    op.add_column('thread', sa.Column('changed_at', sa.DateTime(timezone=True),
        sa.Computed('coalesce(state_updated_at, updated_at)', persisted=postgresql), nullable=True))
    op.drop_index('ix_thread_deployment_id_condition', table_name='thread')
    op.create_index('ix_thread_deployment_id_condition', 'thread',
        ['deployment_id', 'condition', 'work_id', 'changed_at', 'thread_id'], unique=False)
    op.create_index('ix_thread_deployment_id_changed_at', 'thread', ['deployment_id', 'changed_at', 'thread_id'], unique=False)
    op.create_index('ix_poll_deployment_id_kind_state', 'poll', ['deployment_id', 'kind', 'state', 'id'], unique=False)
    op.create_table('thread_age',
    sa.Column('deployment_id', sa.Integer(), nullable=False),
    *(sa.Column(name, sa.DateTime(timezone=True), nullable=False) for name in EDGES),
    sa.ForeignKeyConstraint(['deployment_id'], ['deployment.id'], name=op.f('fk_thread_age_deployment_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('deployment_id', name=op.f('pk_thread_age'))
    )
    big = sa.BigInteger().with_variant(sa.Integer(), 'sqlite')
    op.create_table('thread_cell',
    sa.Column('deployment_id', sa.Integer(), nullable=False),
    sa.Column('graph_id', sa.String(length=255), nullable=False),
    sa.Column('head_graph_id', sa.String(length=255), nullable=False),
    sa.Column('assistant_id', sa.String(length=255), nullable=False),
    sa.Column('status', sa.String(length=12), nullable=False),
    sa.Column('condition', sa.String(length=20), nullable=False),
    sa.Column('work_id', sa.Integer(), nullable=False),
    sa.Column('row_shape_id', sa.Integer(), nullable=False),
    sa.Column('state_shape_id', sa.Integer(), nullable=False),
    sa.Column('revision_id', big, nullable=False),
    sa.Column('routes_id', sa.Integer(), nullable=False),
    sa.Column('reading_is_current', sa.Boolean(), nullable=False),
    sa.Column('is_read', sa.Boolean(), nullable=False),
    sa.Column('age', sa.SmallInteger(), nullable=False),
    sa.Column('n', sa.BigInteger(), nullable=False),
    sa.ForeignKeyConstraint(['deployment_id'], ['deployment.id'], name=op.f('fk_thread_cell_deployment_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint(*KEY, 'age', name=op.f('pk_thread_cell')),
    sqlite_with_rowid=False
    )
    _fill()
    for statement in _postgresql() if postgresql else _sqlite():
        op.execute(sa.DDL(statement))


def _fill() -> None:
    connection = op.get_bind()
    now = datetime.now(UTC)
    if connection.dialect.name == 'sqlite':
        now = now.replace(tzinfo=None)
    ages = sa.table('thread_age', sa.column('deployment_id'), *(sa.column(name, sa.DateTime(timezone=True)) for name in EDGES))
    edges = {name: now - length for name, length in EDGES.items()}
    for deployment_id in connection.execute(sa.text('SELECT id FROM deployment')).scalars().all():
        connection.execute(sa.insert(ages).values(deployment_id=deployment_id, **edges))
    connection.exec_driver_sql(f'INSERT INTO thread_cell ({NAMES}, n) {_counted("thread")}')


def _age(row: str) -> str:
    """How many edges a row is behind; all of them where there are no edges yet."""
    changed = f'coalesce({row}.state_updated_at, {row}.updated_at)'
    cases = ' '.join(f'WHEN {changed} > e.{name} THEN {age}' for age, name in enumerate(EDGES))
    return (f'coalesce((SELECT CASE {cases} ELSE {len(EDGES)} END FROM thread_age e '
        f'WHERE e.deployment_id = {row}.deployment_id), {len(EDGES)})')


def _key(row: str) -> list[str]:
    return [*(part.format(r=row) for part in KEY.values()), _age(row)]


def _named(row: str) -> str:
    return ', '.join(f'{part} AS {name}' for name, part in zip((*KEY, 'age'), _key(row), strict=True))


def _counted(rows: str) -> str:
    return f'SELECT {NAMES}, count(*) FROM (SELECT {_named("r")} FROM {rows} r) k GROUP BY {NAMES}'


def _sqlite() -> list[str]:
    """A row at a time. A cell that becomes empty stays until the next poll sweeps it up."""
    values = ', '.join(_key('NEW'))
    put = f'INSERT INTO thread_cell ({NAMES}, n) VALUES ({values}, 1) ON CONFLICT ({NAMES}) DO UPDATE SET n = n + 1;'
    where = ' AND '.join(f'{name} = {part}' for name, part in zip((*KEY, 'age'), _key('OLD'), strict=True))
    take = f'UPDATE thread_cell SET n = n - 1 WHERE {where};'
    differs = ' OR '.join(f'OLD.{name} IS NOT NEW.{name}' for name in COLUMNS)
    return [
        f'CREATE TRIGGER thread_counted_in AFTER INSERT ON thread BEGIN {put} END',
        f'CREATE TRIGGER thread_counted_again AFTER UPDATE OF {", ".join(COLUMNS)} ON thread WHEN {differs} '
        f'BEGIN {take} {put} END',
        f'CREATE TRIGGER thread_counted_out AFTER DELETE ON thread BEGIN {take} END',
    ]


def _postgresql() -> list[str]:
    """A statement at a time, its cells in one order. The edges are locked against a poll that moves them meanwhile."""
    held = 'PERFORM 1 FROM thread_age WHERE deployment_id IN (SELECT deployment_id FROM {rows}) FOR SHARE;'
    add = f'ON CONFLICT ({NAMES}) DO UPDATE SET n = thread_cell.n + excluded.n;'
    both = f'SELECT {_named("r")}, 1 AS d FROM new_rows r UNION ALL SELECT {_named("r")}, -1 FROM old_rows r'
    same = ' AND '.join(f'thread_cell.{name} = k.{name}' for name in (*KEY, 'age'))
    bodies = {
        'in': f'{held.format(rows="new_rows")} INSERT INTO thread_cell ({NAMES}, n) {_counted("new_rows")} ORDER BY {NAMES} {add}',
        'again': f'{held.format(rows="new_rows")} INSERT INTO thread_cell ({NAMES}, n) SELECT {NAMES}, sum(d) FROM ({both}) k '
        f'GROUP BY {NAMES} HAVING sum(d) <> 0 ORDER BY {NAMES} {add}',
        'out': f'{held.format(rows="old_rows")} UPDATE thread_cell SET n = n - k.count FROM ({_counted("old_rows")}) k WHERE {same};',
    }
    events = {
        'in': ('INSERT', 'NEW TABLE AS new_rows'),
        'again': ('UPDATE', 'OLD TABLE AS old_rows NEW TABLE AS new_rows'),
        'out': ('DELETE', 'OLD TABLE AS old_rows'),
    }
    statements = []
    for word, body in bodies.items():
        event, seen = events[word]
        statements += [
            f'CREATE FUNCTION thread_counted_{word}() RETURNS trigger LANGUAGE plpgsql AS '
            f'$body$ BEGIN {body} RETURN NULL; END $body$',
            f'CREATE TRIGGER thread_counted_{word} AFTER {event} ON thread REFERENCING {seen} '
            f'FOR EACH STATEMENT EXECUTE FUNCTION thread_counted_{word}()',
        ]
    return statements


def downgrade() -> None:
    postgresql = op.get_bind().dialect.name == 'postgresql'
    for word in ('in', 'again', 'out'):
        op.execute(f'DROP TRIGGER thread_counted_{word}' + (' ON thread' if postgresql else ''))
        if postgresql:
            op.execute(f'DROP FUNCTION thread_counted_{word}()')
    op.drop_index('ix_poll_deployment_id_kind_state', table_name='poll')
    op.drop_table('thread_cell')
    op.drop_table('thread_age')
    op.drop_index('ix_thread_deployment_id_changed_at', table_name='thread')
    op.drop_index('ix_thread_deployment_id_condition', table_name='thread')
    op.create_index('ix_thread_deployment_id_condition', 'thread', ['deployment_id', 'condition'], unique=False)
    op.drop_column('thread', 'changed_at')
