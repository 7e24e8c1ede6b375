"""The contract of templates: each page gets exactly the context that it declares, and uses all of it."""

from dataclasses import fields
from typing import get_args

import pytest
from jinja2 import Environment, meta, nodes

from app.places import TEMPLATES
from app.web.contexts import Page
from app.web.render import make_environment

COMMON = {"shows_places", "ui", "now", "url", "version", "open_notice", "caller"}
PAGES = get_args(Page)
PARTS = {"ui.html", "graph.html", "drain_parts.html", "base.html"}


def free_names(environment: Environment, template: str) -> set[str]:
    """What a template reads that it does not set itself."""
    tree = environment.parse((TEMPLATES / template).read_text(encoding="utf-8"))
    own = {each.name for each in tree.find_all(nodes.Name) if each.ctx in ("store", "param")}
    own |= {each.name for each in tree.find_all(nodes.Macro)}
    for each in tree.find_all(nodes.FromImport):
        own |= {name if isinstance(name, str) else name[1] for name in each.names}
    return meta.find_undeclared_variables(tree) - own - environment.globals.keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.__name__)
def test_a_page_gets_exactly_the_context_that_it_declares(page: type) -> None:
    declared = {field.name for field in fields(page)}
    used = free_names(make_environment(), page.template) - COMMON  # type: ignore[attr-defined]
    assert used == declared


def test_parts_use_what_every_page_has() -> None:
    environment = make_environment()
    for part in PARTS:
        assert free_names(environment, part) <= COMMON, part


def test_every_template_is_a_page_or_a_part() -> None:
    templates = {file.name for file in TEMPLATES.glob("*.html")}
    assert templates == PARTS | {page.template for page in PAGES}
