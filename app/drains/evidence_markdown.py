"""The evidence report as Markdown, to paste into a ticket. Pure."""

from datetime import datetime

from app.drains.jsonable import to_jsonable
from app.inventory.views import Evidence, NextStep


def to_markdown(evidence: Evidence, now: datetime) -> str:
    """The report to paste into a ticket."""
    raw = to_jsonable(evidence)
    lines = [
        f"## Thread `{evidence.thread_id}`",
        "",
        f"**{evidence.diagnosis.sentence}**",
        "",
        *(f"{index}. {_step(step)}" for index, step in enumerate(evidence.diagnosis.next_steps, 1)),
        "",
        *_table(["", ""], [[key, _said(raw[key])] for key in _SUMMARY if raw.get(key) is not None]),
    ]
    if evidence.pending:
        rows = [
            [f"`{p.node}`", str(p.tasks), p.cause, _yes(p.deployed), p.source.replace("_", " ")]
            for p in evidence.pending
        ]
        lines += ["", "### Where", "", *_table(["node", "tasks", "cause", "deployed", "known from"], rows)]
    if evidence.fields:
        rows = [
            [f"`{name}`", f.row or "?", f.state or "?", f.kind or "", _known(f.history_versions)]
            for name, f in evidence.fields.items()
        ]
        lines += ["", "### Fields", "", *_table(["field", "row", "state", "kind", "stored versions"], rows)]
    lines += _facts(evidence) if evidence.found else []
    if evidence.departures:
        rows = [[_cell(d["at"]), f"`{d['node']}`", _cell(d["departure"])] for d in evidence.departures]
        lines += ["", "### How it left", "", *_table(["at", "node", "departure"], rows)]
    if evidence.deploys:
        rows = [[_cell(d["at"]), _cell(d["graph"]), _cell(d["kind"]), _cell(d["id"])] for d in evidence.deploys]
        lines += ["", "### Deploys since its head was written", "", *_table(["at", "graph", "it", "deploy"], rows)]
    if evidence.lineage:
        rows = [
            [f"`{c.id}`", _cell(c.source), _cell(c.step), _cell(to_jsonable(c.created_at))]
            for c in evidence.lineage[:20]
        ]
        lines += ["", "### Lineage", "", *_table(["checkpoint", "source", "step", "written"], rows)]
    if evidence.drains:
        rows = [[f"`{drain.name}`", drain.disposition.replace("_", " ")] for drain in evidence.drains]
        lines += ["", "### Drains", "", *_table(["drain", "this thread"], rows)]
    source = evidence.provenance
    read = f"read {_cell(to_jsonable(source.read_at))}" if source.read_at else "not read"
    lines += [
        "",
        f"_{evidence.schema}, {source.source}, {read}, "
        f"written {_cell(to_jsonable(now))} by Drainboard {source.drainboard_version}. No state values._",
        "",
    ]
    return "\n".join(lines)


def _facts(evidence: Evidence) -> list[str]:
    """What is one line each: the head, the last run, the versions."""
    version, checkpoint, history, run = (
        evidence.state_version,
        evidence.checkpoint,
        evidence.history,
        evidence.last_run,
    )
    rows = [
        ["head checkpoint", f"`{checkpoint.id}`, {checkpoint.source or '?'}, step {_known(checkpoint.step)}"]
        if checkpoint
        else ["head checkpoint", "?"],
        [
            "checkpoints stored",
            f"{_known(history['depth'])}{' and more' if history['truncated'] else ''}" if history else "?",
        ],
        ["finished, not applied", ", ".join(f"`{node}`" for node in evidence.unapplied or ()) or "none"],
        [
            "state version",
            (str(version.value) if version.value is not None else version.reading.value) if version else "?",
        ],
        ["undeclared fields", _known(evidence.undeclared_fields)],
        [
            "renames",
            ", ".join(f"`{pair}` {found}" for pair, found in (evidence.conflicts or {}).items()) or "none to compare",
        ],
        ["last run", f"`{run['id']}` {run['status'] or '?'}" if run else "?"],
        ["expires", _known(to_jsonable(evidence.provenance.ttl_expires_at))],
    ]
    return ["", "### Facts", "", *_table(["", ""], rows)]


def _known(value: object) -> str:
    return "?" if value is None else _cell(value)


_SUMMARY = (
    "deployment",
    "environment",
    "graph_id",
    "head_graph_id",
    "assistant_id",
    "status",
    "condition",
    "stuck",
    "created_at",
    "updated_at",
)


def _step(step: NextStep) -> str:
    command = f" `{step.command}`" if step.command else ""
    return f"{step.text}{command} ({'safe' if step.safe_to_repeat else 'not safe'} to repeat)"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def _cell(value: object) -> str:
    return "" if value is None else str(value).replace("|", "\\|")


def _said(value: object) -> str:
    return _yes(value) if isinstance(value, bool) else _cell(value)


def _yes(value: bool | None) -> str:
    return "?" if value is None else "yes" if value else "no"
