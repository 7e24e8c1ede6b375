"""What the image brings may be used in any application: no GPL, no AGPL, no Elastic licence at run time."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, metadata

from tests.delivery.dockerfile import ROOT

ALLOWED = re.compile(r"\b(MIT|BSD|Apache|ISC|PSF|MPL|Mozilla|LGPL)\b|^MIT-0$", re.IGNORECASE)
REFUSED = re.compile(r"\bA?GPL|Affero|GNU General Public|Elastic|SSPL|Business Source", re.IGNORECASE)
CHOSEN = {"grandalf": "EPL"}  # GPL v2 or EPL v1, whichever one takes
ELSEWHERE = {"colorama", "httpx2-jsfetch"}  # for Windows, for browsers: not in the image


def licence(name: str) -> str:
    """What a package says of itself: an SPDX expression, else its classifiers, else free text."""
    found = metadata(name)
    classifiers = [
        each.rpartition(" :: ")[2] for each in found.get_all("Classifier") or () if each.startswith("License")
    ]
    return found.get("License-Expression") or "; ".join(classifiers) or str(found.get("License") or "")


def test_every_package_of_the_image_has_a_licence_that_may_be_used() -> None:
    names = re.findall(r"^([a-z0-9][a-z0-9._-]*)==", (ROOT / "requirements" / "app.lock").read_text(), re.MULTILINE)
    assert len(names) > 40
    wrong, missing = {}, set()
    for name in names:
        try:
            said = licence(name)
        except PackageNotFoundError:
            missing.add(name)
            continue
        if (REFUSED.search(said) or not ALLOWED.search(said)) and name not in CHOSEN:
            wrong[name] = said
    assert wrong == {}
    assert missing <= ELSEWHERE
    for name, chosen in CHOSEN.items():
        assert chosen in str(metadata(name).get("License")), name
