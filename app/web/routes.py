"""The pages' routes: parse, ask the dashboard, render. No SQL, no HTML."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from app.auth.callers import by_of
from app.auth.same_origin import require_same_origin
from app.clock import utc_now
from app.drains.answers import Actor
from app.drains.register import Register
from app.drains.waiters import Waiters
from app.errors import NotFound
from app.inventory.finding import HitKind
from app.inventory.views import DeploymentStatus, Waiter
from app.inventory.waiting_at import WaitingAt
from app.web import contexts, deploys, paths
from app.web.burndown_picture import draw_burndown
from app.web.contexts import (
    AnswerPage,
    AnswersPage,
    Chosen,
    DeploymentPage,
    DeployView,
    DrainPage,
    DrainsPage,
    EvidencePage,
    OverviewPage,
    Page,
    SearchPage,
    ThreadsPage,
)
from app.web.dashboard import Dashboard, Filters
from app.web.filters import ThreadQuery, chips, facets, field_facets, read_query
from app.web.forms import Form, read_time
from app.web.graph_picture import MARKS, GraphPicture, NodeTotals, draw_deployment, shares_names
from app.web.left import what_is_left
from app.web.past import past_answers, past_detail
from app.web.render import Pages, is_partial
from app.web.timeline import timeline
from app.web.trace_strip import Entered
from app.web.trend_picture import TrendPicture, draw_trend

FIRST_THREADS = 20
PAGE_OF_THREADS = 50
PAST_ANSWERS = 10
PAGE_OF_ANSWERS = 50
LAST_DEPLOYS = 50
LAST_ENTRIES = 10
DECIDED_HITS = 5  # each verdict costs what its gate costs
MAX_ID = 2**53
EVERYTHING = Chosen()

router = APIRouter(default_response_class=HTMLResponse, include_in_schema=False)


def _dashboard(request: Request) -> Dashboard:
    dashboard: Dashboard = request.app.state.dashboard
    return dashboard.seen_by(request.state.caller)


def _asked(request: Request) -> ThreadQuery:
    return read_query(request.query_params)


Data = Annotated[Dashboard, Depends(_dashboard)]
Asked = Annotated[ThreadQuery, Depends(_asked)]


@router.get("/")
async def overview(request: Request, data: Data) -> HTMLResponse:
    page = OverviewPage(
        alarms=await data.alarms(),
        drains=contexts.by_urgency(await data.drains()),
        trends=await _trends(data),
        deployments=await data.deployments(),
        work=await data.work(),
    )
    return _respond(request, page)


@router.get("/deployments/{name}")
async def deployment(request: Request, name: str, data: Data, asked: Asked) -> HTMLResponse:
    return await show_deployment(request, name, data, asked)


async def show_deployment(
    request: Request, name: str, data: Dashboard, asked: ThreadQuery, *, say: Form | None = None, status: int = 200
) -> HTMLResponse:
    """The inventory of a deployment; with a form that could not be taken, as it was typed."""
    found = await data.deployment(name)
    inventory = await data.inventory(name, asked.filters)
    waiting = await data.waiting(name, asked.filters)
    counts = contexts.node_totals(waiting, _marks_of(found, asked.filters))
    by_node = await data.nodes(name, contexts.deployed_nodes(found))
    traces = contexts.traced_nodes(by_node)
    page = DeploymentPage(
        deployment=found,
        inventory=inventory,
        threads=await data.threads(name, asked.filters, None, FIRST_THREADS, asked.sort),
        nodes=contexts.node_counts(found, counts),
        pictures=_pictures(found, waiting, counts, asked, contexts.entered_by_day(by_node)),
        asked=asked,
        facets=facets(inventory, asked),
        fields=field_facets(inventory, asked),
        chips=chips(asked),
        deploys=(await data.deploys(name, None, LAST_DEPLOYS)).items,
        say=say or Form(),
        traces=traces,
        quiet=tuple(each for each in traces if each.is_quiet),
    )
    return _respond(request, page, status=status)


@router.get("/deployments/{name}/deploys/{deploy_id}")
async def deploy(
    request: Request,
    *,
    name: str,
    deploy_id: Annotated[int, Path(ge=1, le=MAX_ID)],
    data: Data,
    fate: str | None = None,
    cursor: str | None = None,
) -> HTMLResponse:
    status = await data.deployment(name)
    report = await data.deploy_threads(name, deploy_id, fate, cursor, PAGE_OF_THREADS)
    page = DeployView(
        deployment=status,
        deploy=report.deploy,
        said=deploys.headline(report.deploy),
        pictures=deploys.pictures(report.deploy, status),
        threads=report.items,
        next_cursor=report.next_cursor,
        cursor=cursor,
        fate=fate,
        fates=deploys.FATES,
        tones=deploys.TONES,
    )
    return _respond(request, page)


@router.post("/deployments/{name}/poll", dependencies=[Depends(require_same_origin)])
async def poll(name: str, data: Data, full: bool = False) -> RedirectResponse:
    await data.start_poll(name, full)
    return RedirectResponse(paths.deployment_path(name), 303)


@router.get("/deployments/{name}/threads")
async def threads(request: Request, name: str, data: Data, asked: Asked) -> HTMLResponse:
    inventory = await data.inventory(name, asked.filters)
    page = ThreadsPage(
        deployment=await data.deployment(name),
        inventory=inventory,
        threads=await data.threads(name, asked.filters, asked.cursor, PAGE_OF_THREADS, asked.sort),
        asked=asked,
        facets=facets(inventory, asked),
        fields=field_facets(inventory, asked),
        chips=chips(asked),
    )
    return _respond(request, page)


@router.get("/deployments/{name}/threads/{thread_id:path}")
async def thread(request: Request, name: str, thread_id: str, data: Data, live: bool = False) -> HTMLResponse:
    status = await data.deployment(name)
    evidence = await data.evidence(name, thread_id, live)
    if not is_partial(request):  # a page that updates itself is one look
        register: Register = request.app.state.register
        by = by_of(request, "browser", utc_now())
        await register.opened(name, evidence.thread_id, by, live=live, found=evidence.found)
    met = (await data.deploys(name, None, LAST_DEPLOYS)).items if evidence.lineage else ()
    ran_by = evidence.assistant_id
    page = EvidencePage(
        deployment=status,
        evidence=evidence,
        live=live,
        timeline=timeline(evidence, met),
        assistant=await data.assistant_name(name, ran_by) if ran_by else None,
    )
    return _respond(request, page, status=200 if evidence.found else 404)


@router.get("/search")
async def search(request: Request, data: Data, q: Annotated[str, Query(max_length=2000)] = "") -> Response:
    """What was typed into the box on every page. What must have been meant is gone to at once."""
    found = await data.find(q)
    if found.only is not None:
        return RedirectResponse(paths.hit_path(found.only), 303)
    ask = {}
    if found.thread_id is not None and found.is_whole_id:
        ask = {each.deployment: paths.thread_path(each.deployment, found.thread_id) for each in found.looked}
    if not found.hits and len(ask) == 1:
        return RedirectResponse(next(iter(ask.values())), 303)
    groups = {
        kind.value: tuple((hit, paths.hit_path(hit)) for hit in found.hits if hit.kind is kind) for kind in HitKind
    }
    drains = [hit.name for hit in found.hits if hit.kind is HitKind.DRAIN][:DECIDED_HITS]
    answers = {name: await data.drain(name) for name in drains}
    return _respond(request, SearchPage(found, {kind: hits for kind, hits in groups.items() if hits}, ask, answers))


@router.get("/drains")
async def drains(request: Request, data: Data) -> HTMLResponse:
    return _respond(request, DrainsPage(contexts.by_urgency(await data.drains()), await _trends(data)))


@router.get("/drains/{name}/answers")
async def answers(
    request: Request,
    name: str,
    data: Data,
    at: Annotated[str, Query(max_length=40)] = "",
    before: Annotated[int | None, Query(ge=1, le=MAX_ID)] = None,
) -> Response:
    """What a drain said before; with a time (UTC), what it said then."""
    wrong, status = {}, 200
    if when := read_time(at):
        try:
            held = await data.past_answer(name, at=when)
            return RedirectResponse(paths.answers_path(name, held.stored.number), 303)
        except NotFound as error:
            wrong, status = {"at": error.message}, 404
    elif at.strip():
        wrong, status = {"at": "This is no time. Write it like `2026-05-12T09:30`; it is taken as UTC."}, 422
    items, older = await data.past_answers(name, before, PAGE_OF_ANSWERS)
    page = AnswersPage(
        drain=name,
        items=past_answers(items),
        older=older,
        before=before,
        at=Form({"at": (at,)}, wrong),
    )
    return _respond(request, page, status=status)


@router.get("/drains/{name}/answers/{number}")
async def past(request: Request, name: str, number: Annotated[int, Path(ge=1, le=MAX_ID)], data: Data) -> HTMLResponse:
    answer, held = await data.drain(name), await data.past_answer(name, number=number)
    found = past_detail(held.stored)
    page = AnswerPage(
        drain=name,
        deployment=answer.deployment,
        held=held,
        past=found,
        left=what_is_left(found.targets, None),
        groups=contexts.disposition_groups(found.dispositions),
        criteria_today=answer.criteria_version,
    )
    return _respond(request, page)


@router.get("/drains/{name}")
async def drain(
    request: Request,
    *,
    name: str,
    data: Data,
    disposition: str | None = None,
    target: str | None = None,
    reason: str | None = None,
    assistant: str | None = None,
    by: str | None = None,
    value: str | None = None,
    cursor: str | None = None,
) -> HTMLResponse:
    chosen = Chosen(disposition, target, reason, Actor.asked(assistant, by, value))
    return await show_drain(request, name, data, chosen=chosen, cursor=cursor)


async def show_drain(
    request: Request,
    name: str,
    data: Dashboard,
    *,
    chosen: Chosen = EVERYTHING,
    cursor: str | None = None,
    say: Form | None = None,
    attest: Form | None = None,
    status: int = 200,
) -> HTMLResponse:
    """The page of a drain; with a form that could not be taken, as it was typed."""
    register: Register = request.app.state.register
    answer = await register.detail(name, now=utc_now())
    targets = [target.name for target in answer.targets if target.kind == "node"]
    items, next_cursor, total = await data.drain_threads(
        name,
        chosen.disposition,
        cursor,
        PAGE_OF_THREADS,
        reason=chosen.reason,
        target=chosen.target,
        actor=chosen.actor,
    )
    page = DrainPage(
        answer=answer,
        groups=contexts.disposition_groups(answer.dispositions),
        threads=items,
        total=total,
        next_cursor=next_cursor,
        cursor=cursor,
        chosen=chosen,
        left=what_is_left(answer.targets, name),
        assistants=contexts.assistant_names(answer),
        past=past_answers((await data.past_answers(name, None, PAST_ANSWERS))[0]),
        say=say or Form(),
        attest=attest or Form(),
        poll=await data.running_poll(answer.deployment),
        burndown=draw_burndown(await data.history(name)),
        traces=contexts.traced_nodes(
            await data.nodes(answer.deployment, targets),
            {target.name: target.blocking for target in answer.targets if target.kind == "node"},
        ),
        entries=await data.entries(answer.deployment, targets, LAST_ENTRIES),
        waiters=await _who_waits(request, name),
    )
    return _respond(request, page, status=status)


async def _who_waits(request: Request, drain: str) -> tuple[Waiter, ...]:
    waiters: Waiters = request.app.state.waiters
    return await waiters.list(drain, by_of(request, "browser", utc_now()))


def _respond(request: Request, page: Page, *, status: int = 200) -> HTMLResponse:
    pages: Pages = request.app.state.pages
    return pages.respond(request, page, status=status)


async def _trends(data: Dashboard) -> dict[str, TrendPicture]:
    return {each.drain: draw_trend(each) for each in await data.trends()}


def _marks_of(deployment: DeploymentStatus, filters: Filters) -> list[str]:
    """The conditions that are counted at each node: those that any thread has, and that are asked for."""
    wanted = filters.get("condition", MARKS)
    return [each for each in MARKS if deployment.conditions.get(each) and each in wanted]


def _pictures(
    deployment: DeploymentStatus,
    waiting: Sequence[WaitingAt],
    counts: NodeTotals,
    asked: ThreadQuery,
    entered: Entered,
) -> tuple[GraphPicture, ...]:
    """The graphs drawn. Each is counted on its own only where two of them have a node of the same name."""
    by_graph = {}
    if shares_names(deployment):
        for graph in {each.graph: None for each in deployment.revisions if each.vanished_at is None}:
            of_it = [each for each in waiting if graph in each.graphs]
            is_asked = graph in asked.filters.get("graph", (graph,))
            by_graph[graph] = contexts.node_totals(of_it, counts.by_condition) if is_asked else NodeTotals({}, {})

    def href(graph: str | None, node: str, condition: str | None) -> str:
        of = graph if by_graph else None
        return paths.threads_path(deployment.name) + asked.narrowed(pending=node, condition=condition, graph=of)

    return draw_deployment(deployment, counts, by_graph, href, entered=entered)
