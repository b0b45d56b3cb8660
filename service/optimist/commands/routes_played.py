"""`optimist simulate --goal route`: routing policies played on prompts whose scores are all known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from optimist.commands.shared import extras, said_plainly
from optimist_client.errors import FixError


def play_routes(
    file: Path,
    policies: Sequence[str],
    rounds: int,
    trials: int,
    seed: int,
    json_file: Path | None,
    price: float = 0.0,
    tries: int = 1,
    ceiling: float | None = None,
    at_least: float | None = None,
) -> None:
    """Print what each policy gets on up to `rounds` prompts in random order, beside the best single generator.

    Exits with a message if the file does not suffice, or a policy is unknown.
    """
    with extras("server,scoring"):
        from optimist.routing_gain.files import prompts_in
        from optimist.simulation.routes import played
    with said_plainly(ValueError, OSError):
        if json_file is not None and not json_file.parent.is_dir():
            raise FixError(f"--json {json_file}: expected a file in an existing folder")
        known = prompts_in(file)
        budget = {"ceiling": ceiling, "at_least": at_least}
        result = played(known, policies, rounds=rounds, trials=trials, seed=seed, price=price, tries=tries, **budget)
        if json_file is not None:
            json_file.write_text(json.dumps(result.to_dict(), indent=2, allow_nan=False))
    table = Table(title=result.sentence, title_justify="left", box=None, pad_edge=False)
    costs = () if result.single_cost is None else ("cost", "saved", "of the dearest")
    value = "score less price" if price else "mean score"
    for heading in ("policy", value, "± over trials", "part of the possible gain", *costs, *result.names):
        table.add_column(heading, overflow="fold", no_wrap=heading == "policy")
    for row in result.rows:
        share = "–" if row.share_of_ideal is None else f"{row.share_of_ideal:.2f}"
        picks = (f"{part:.0%}" for part in row.picks.values())
        money = [f"{amount:.3g}" for amount in (row.cost, row.saved, row.saved_dearest) if amount is not None]
        table.add_row(row.policy, f"{row.mean:.4f}", f"{row.error:.4f}", share, *money, *picks)
    Console().print(table)
