"""The pages' routes: parse, ask the dashboard, render. No SQL, no HTML."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from app.auth.callers import by_of
from app.auth.same_origin import require_same_origin
from app.clock import utc_now
from app.drains.register import Register
from app.drains.waiters import Waiters
from app.inventory.views import DeploymentStatus, Inventory, Waiter
from app.web import contexts, deploys, paths
from app.web.burndown_picture import draw_burndown
from app.web.contexts import (
    DeploymentPage,
    DeployView,
    DrainPage,
    DrainsPage,
    EvidencePage,
    OverviewPage,
    Page,
    ThreadsPage,
)
from app.web.dashboard import Dashboard, Filters
from app.web.filters import ThreadQuery, chips, facets, field_facets, read_query
from app.web.forms import Form
from app.web.graph_picture import MARKS, GraphPicture, NodeTotals, draw_deployment, shares_names
from app.web.render import Pages, is_partial
from app.web.timeline import timeline

FIRST_THREADS = 20
PAGE_OF_THREADS = 50
PAST_ANSWERS = 10
LAST_DEPLOYS = 50
MAX_ID = 2**53

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
        deployments=await data.deployments(),
    )
    return _respond(request, page)


@router.get("/deployments/{name}")
async def deployment(request: Request, name: str, data: Data, asked: Asked) -> HTMLResponse:
    status = await data.deployment(name)
    inventory = await data.inventory(name, asked.filters)
    counts = await _node_totals(data, status, inventory, asked.filters)
    traces = contexts.traced_nodes(await data.nodes(name, contexts.deployed_nodes(status)), status.as_of or utc_now())
    page = DeploymentPage(
        deployment=status,
        inventory=inventory,
        threads=await data.threads(name, asked.filters, None, FIRST_THREADS, asked.sort),
        nodes=contexts.node_counts(status, counts),
        pictures=await _pictures(data, status, counts, asked),
        asked=asked,
        facets=facets(inventory, asked),
        fields=field_facets(inventory, asked),
        chips=chips(asked),
        deploys=(await data.deploys(name, None, LAST_DEPLOYS)).items,
        traces=traces,
        quiet=tuple(each for each in traces if each.is_quiet),
    )
    return _respond(request, page)


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


@router.get("/deployments/{name}/thread")
async def find_thread(name: str, thread_id: Annotated[str, Query(alias="id", max_length=255)] = "") -> RedirectResponse:
    """The form "open a thread by its id", without JavaScript."""
    wanted = thread_id.strip()
    return RedirectResponse(paths.thread_path(name, wanted) if wanted else paths.threads_path(name), 303)


@router.get("/deployments/{name}/threads/{thread_id:path}")
async def thread(request: Request, name: str, thread_id: str, data: Data, live: bool = False) -> HTMLResponse:
    status = await data.deployment(name)
    evidence = await data.evidence(name, thread_id, live)
    if not is_partial(request):  # a page that updates itself is one look
        register: Register = request.app.state.register
        by = by_of(request, "browser", utc_now())
        await register.opened(name, evidence.thread_id, by, live=live, found=evidence.found)
    page = EvidencePage(deployment=status, evidence=evidence, live=live, timeline=timeline(evidence))
    return _respond(request, page, status=200 if evidence.found else 404)


@router.get("/drains")
async def drains(request: Request, data: Data) -> HTMLResponse:
    return _respond(request, DrainsPage(contexts.by_urgency(await data.drains())))


@router.get("/drains/{name}")
async def drain(
    request: Request,
    *,
    name: str,
    data: Data,
    disposition: str | None = None,
    reason: str | None = None,
    cursor: str | None = None,
) -> HTMLResponse:
    return await show_drain(request, name, data, disposition=disposition, reason=reason, cursor=cursor)


async def show_drain(
    request: Request,
    name: str,
    data: Dashboard,
    *,
    disposition: str | None = None,
    reason: str | None = None,
    cursor: str | None = None,
    say: Form | None = None,
    attest: Form | None = None,
    status: int = 200,
) -> HTMLResponse:
    """The page of a drain; with a form that could not be taken, as it was typed."""
    register: Register = request.app.state.register
    answer = await register.detail(name, now=utc_now())
    targets = [target.name for target in answer.targets if target.kind == "node"]
    items, next_cursor, total = await data.drain_threads(name, disposition, cursor, PAGE_OF_THREADS, reason=reason)
    page = DrainPage(
        answer=answer,
        groups=contexts.disposition_groups(answer.dispositions),
        threads=items,
        total=total,
        next_cursor=next_cursor,
        cursor=cursor,
        disposition=disposition,
        reason=reason,
        assistants=contexts.assistant_names(answer),
        past=contexts.past_answers((await data.evaluations(name))[:PAST_ANSWERS]),
        say=say or Form(),
        attest=attest or Form(),
        burndown=draw_burndown(await data.history(name)),
        traces=contexts.traced_nodes(await data.nodes(answer.deployment, targets), answer.evaluated_at),
        waiters=await _who_waits(request, name),
    )
    return _respond(request, page, status=status)


async def _who_waits(request: Request, drain: str) -> tuple[Waiter, ...]:
    waiters: Waiters = request.app.state.waiters
    return await waiters.list(drain, by_of(request, "browser", utc_now()))


def _respond(request: Request, page: Page, *, status: int = 200) -> HTMLResponse:
    pages: Pages = request.app.state.pages
    return pages.respond(request, page, status=status)


async def _node_totals(
    data: Dashboard, deployment: DeploymentStatus, inventory: Inventory, filters: Filters
) -> NodeTotals:
    """Pending counts by node and condition: one question for each condition that any thread has."""
    by_condition = {}
    for condition in MARKS:
        if not deployment.conditions.get(condition) or condition not in filters.get("condition", (condition,)):
            continue
        part = await data.inventory(deployment.name, {**filters, "condition": (condition,)})
        by_condition[condition] = _pending(part)
    return NodeTotals(_pending(inventory), by_condition)


async def _pictures(
    data: Dashboard, deployment: DeploymentStatus, counts: NodeTotals, asked: ThreadQuery
) -> tuple[GraphPicture, ...]:
    """The graphs drawn. Each is counted on its own only where two of them have a node of the same name."""
    by_graph = {}
    if shares_names(deployment):
        for graph in {each.graph: None for each in deployment.revisions if each.vanished_at is None}:
            filters = {**asked.filters, "graph": (graph,)}
            if graph not in asked.filters.get("graph", (graph,)):
                by_graph[graph] = NodeTotals({}, {})
            else:
                inventory = await data.inventory(deployment.name, filters)
                by_graph[graph] = await _node_totals(data, deployment, inventory, filters)

    def href(graph: str | None, node: str, condition: str | None) -> str:
        of = graph if by_graph else None
        return paths.threads_path(deployment.name) + asked.narrowed(pending=node, condition=condition, graph=of)

    return draw_deployment(deployment, counts, by_graph, href)


def _pending(inventory: Inventory) -> dict[str, int]:
    counts = inventory.facets.get("pending", {})
    return {node: count for node, count in counts.items() if isinstance(count, int)}
