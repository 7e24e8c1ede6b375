"""What was not listed, and what looks wrong in the whole."""

from sqlalchemy import and_

from app.clock import utc_now
from app.inventory import deploys, reads, register, tables, writes
from app.jobs.comparing import broken_by_deploy
from app.jobs.polling.taking_in import take_in_by_id
from app.jobs.polling.work import BATCH, Work, threads
from app.jobs.readings import Readings, gather

LEAST_MASS = 20
MASS_SHARE = 0.05
LEAST_ALL = 8  # of so many, nearly all at once are a wiped store as well
ALL_SHARE = 0.9
LEAST_DIFFERENCE = 5
COUNT_SHARE = 0.01


async def reconcile(work: Work, readings: Readings) -> None:
    """Ask by id for every thread that is remembered and was not listed: gone, or hidden from the listing."""
    poll, hidden, after = work.poll, 0, ""
    while True:
        async with work.reading() as connection:
            ids = await reads.list_unseen(
                connection, poll.deployment_id, before_poll=poll.first_id, after=after, limit=BATCH
            )
        if not ids:
            break
        after = ids[-1]
        rows = dict(zip(ids, await gather(work.server.thread(one) for one in ids), strict=True))
        missing = [one for one, row in rows.items() if row is None]
        there = [row for row in rows.values() if row is not None]
        hidden += len(there)
        await take_in_by_id(work, readings, there)
        async with work.writing() as connection:
            await writes.mark_gone(connection, poll.deployment_id, missing, poll_id=poll.id, now=utc_now())
    hidden += await _missing_canaries(work)
    if hidden:
        poll.alarms["canary_missing"] = (
            f"{threads(hidden)} can be read by id but not listed. Does the key see every thread?",
            hidden,
        )
    await _notice_disappearance(work)


async def _notice_disappearance(work: Work) -> None:
    """Count the tombstones of threads that were not settled, made since the last complete sweep by whatever poll: a
    repointed address, another key or a wiped store take many, or all, at once."""
    deployment_id = work.deployment_id
    async with work.reading() as connection:
        swept = await reads.find_latest_poll(connection, deployment_id, kinds=("sweep",), states=("complete",))
        if swept is None:
            return
        explained = await register.explained_disappearance(connection, deployment_id, utc_now())
        gone = await reads.count_threads(connection, deployment_id, reads.vanished_since(swept, explained))
        left = await reads.count_threads(connection, deployment_id, reads.was_not_settled())
    many = gone > max(LEAST_MASS, MASS_SHARE * (gone + left))
    nearly_all = gone >= LEAST_ALL and gone >= ALL_SHARE * (gone + left)
    if many or nearly_all:
        work.poll.alarms["mass_disappearance"] = (
            f"{gone} of {gone + left} threads that were not settled vanished between two sweeps. "
            "Is it still the same server, key and store?",
            gone,
        )


async def name_the_stranded(work: Work) -> None:
    """Threads that waited at a node a moment before a deploy removed it, and that nobody has brought to an end since."""
    async with work.reading() as connection:
        found = await deploys.find_unfinished(connection, work.deployment_id)
    if found is not None:
        nodes = ", ".join(f"`{node}`" for node in found.nodes[:5])
        sentence = (
            f"The deploy of {found.noticed_at:%-d %b, %H:%M} UTC removed {nodes} from {found.graph}, where "
            f"{threads(found.threads)} waited. Put back what it removed, or take over by hand what waited."
        )
        work.poll.alarms["removed_while_waiting"] = (sentence[:500], found.threads)


async def name_the_broken(work: Work) -> None:
    """What the last deploy is known to have broken beside strandings, as a preflight would have said before it."""
    async with work.reading() as connection:
        found = await broken_by_deploy(connection, work.deployment_id, now=utc_now())
    if found is not None:
        work.poll.alarms["deploy_broke"] = found


async def compare_counts(work: Work) -> None:
    """The server's count is an alarm, never a proof: it counts stateless runs too, and threads come and go."""
    poll = work.poll
    async with work.reading() as connection:
        listed = await reads.count_threads(connection, poll.deployment_id, reads.is_alive())
    if poll.expected is not None and poll.expected - listed > max(LEAST_DIFFERENCE, COUNT_SHARE * listed):
        sentence = f"The server counts {poll.expected:,} threads and lists {listed:,}. Does the key see every thread?"
        poll.alarms["count_differs"] = (sentence, poll.expected - listed)


async def _missing_canaries(work: Work) -> int:
    """Canaries of the settings that this sweep did not list."""
    wanted = list(work.settings.canary_threads)
    listed_now = and_(
        tables.thread.c.thread_id.in_(wanted), tables.thread.c.seen_poll_id >= work.poll.first_id, reads.is_alive()
    )
    async with work.reading() as connection:
        listed = await reads.list_ids(connection, work.deployment_id, where=listed_now, after="", limit=len(wanted) + 1)
    return len(set(wanted) - set(listed))
