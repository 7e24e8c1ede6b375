"""The long run of the truth machine: prints its figures and its table. Exit code 1 if the product lied, or a session broke
off."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
import traceback

from tests.truth.figures import Figures
from tests.truth.histories import Size
from tests.truth.machine import run_session
from tests.truth.mutants import LIVED, WHERE_IT_SHOWS


def main() -> int:
    """Run sessions until so many histories were made."""
    parser = argparse.ArgumentParser(prog="scripts/truth-machine", description=__doc__)
    parser.add_argument(
        "--histories", type=int, default=100, help="how many histories, in sessions of eight (default 100)"
    )
    parser.add_argument("--seed", default="1", help="everything follows from it (default 1)")
    parser.add_argument("--session", type=int, default=0, help="the number of the first session, to see one again")
    parser.add_argument("--minutes", type=float, default=None, help="begin no session after so many minutes")
    parser.add_argument("--mutate", choices=sorted(LIVED), default=None, help="break a rule of the product")
    asked = parser.parse_args()
    figures, began, number = Figures(), time.monotonic(), asked.session
    broken: list[str] = []
    with LIVED[asked.mutate]() if asked.mutate else contextlib.nullcontext():
        while figures.histories < asked.histories and not _is_over(began, asked.minutes):
            size = WHERE_IT_SHOWS.get(asked.mutate, Size())
            name = f"{asked.seed}.{number}"
            try:
                run_session(name, figures, size, ends_when_caught=asked.mutate is not None)
            except Exception:  # noqa: BLE001 - what the other sessions saw is kept; the run has failed
                broken.append(name)
                traceback.print_exc()
            number += 1
            _tell(began, figures)
    sys.stdout.write(
        f"seed {asked.seed}, {number - asked.session} sessions in {time.monotonic() - began:.0f} s\n{figures.report()}\n"
    )
    if asked.mutate:
        caught = {lie.history for lie in figures.lies if lie.kind == "false drained"}
        noticed = {lie.history for lie in figures.lies}
        sys.stdout.write(
            f"Mutation {asked.mutate!r}: false drained in {len(caught)} histories, some lie in {len(noticed)}\n"
        )
    if broken:
        sys.stdout.write(f"Sessions that broke off: {', '.join(broken)}\n")
    return 1 if figures.lies or broken else 0


def _tell(began: float, figures: Figures) -> None:
    said = (
        f"{figures.histories} histories, {figures.steps} steps, {figures.polls} polls, "
        f"{len(figures.histories_drained)} drained, {figures.false_drained} false drained, {len(figures.lies)} lies"
    )
    sys.stderr.write(
        f"{time.monotonic() - began:7.0f} s  {said}\n           never seen: {', '.join(figures.never_seen())}\n"
    )


def _is_over(began: float, minutes: float | None) -> bool:
    return minutes is not None and time.monotonic() - began > minutes * 60


if __name__ == "__main__":
    sys.exit(main())
