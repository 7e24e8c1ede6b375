"""Writes a preflight's summary as a comment on a pull request: always the same one, found by the marker in its first line."""

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

MOST_PAGES = 30
PER_PAGE = 100


def main() -> int:
    """Write over the comment that has the marker, or make the first one. A comment that cannot be written fails nothing."""
    text = Path(os.environ["COMMENT_FILE"]).read_text(encoding="utf-8")
    repository = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}"
    comments = f"{repository}/issues/{int(os.environ['COMMENT_NUMBER'])}/comments"
    try:
        found = _find(comments, text.splitlines()[0])
        if found is None:
            _ask("POST", comments, {"body": text})
        else:
            _ask("PATCH", f"{repository}/issues/comments/{found}", {"body": text})
    except (urllib.error.URLError, ValueError) as error:
        sys.stdout.write(f"::warning::The comment could not be written ({type(error).__name__}).\n")
    return 0


def _find(comments: str, marker: str) -> int | None:
    """The id of the comment that begins with the marker."""
    for page in range(1, MOST_PAGES + 1):
        found = _ask("GET", f"{comments}?per_page={PER_PAGE}&page={page}")
        for one in found:
            if str(one.get("body", "")).startswith(marker):
                return int(one["id"])
        if len(found) < PER_PAGE:
            return None
    return None


def _ask(method: str, url: str, body: dict[str, Any] | None = None) -> Any:
    request = urllib.request.Request(  # noqa: S310 - the address is GitHub's own variable
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {os.environ['COMMENT_TOKEN']}",
            "Accept": "application/vnd.github+json",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return json.loads(answer.read() or b"null")


if __name__ == "__main__":
    sys.exit(main())
