"""How long a page of the dashboard takes until its first view is there, and what that costs the browser.

    python benchmarks/first_view.py [--repeats 9] [--trace FILE]

A service with a decided experiment of 4 generators by FID, one of 100 generators, and a list of 34. Each page is opened
in a fresh tab of one Chromium with a window of 1440 × 900, once with nothing in the cache and then from it: the time by
the browser's clock from the start of the navigation until the standings (or the rows of the list) are there, and until
the chart of estimates is; the processor time of the page's main thread until then, in all, in scripts, and in
style and layout; and the bytes, compressed. `--trace` writes a profile of the scripts, for the browser's tools.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from playwright.sync_api import BrowserContext, ViewportSize, sync_playwright

from optimist_client import Optimist
from optimist_client.metrics import FID, Mean
from raw import free_port, header, line, process, serve

VIEW: ViewportSize = {"width": 1440, "height": 900}
WATCH = """
const shown = {
  rows: () => document.querySelectorAll(".standings tbody tr, .line").length > 2,
  charts: () => location.hash.includes("/e/") ? document.querySelector("#plot-estimates svg") : shown.rows(),
};
window.seen = {};
(function look() {
  for (const [name, isThere] of Object.entries(shown)) if (isThere()) window.seen[name] ??= performance.now();
  if (Object.keys(window.seen).length < 2) requestAnimationFrame(look);
})();
"""
"""Notes when the rows and the charts were there at the beginning of a frame."""
PAGES = {"4 generators": "#/e/four", "100 generators": "#/e/hundred", "list of 34": "#/"}
COLUMNS = ("rows ms", "charts ms", "main thread ms", "scripts ms", "style and layout ms", "kB")
PARTS = (("TaskDuration",), ("ScriptDuration",), ("RecalcStyleDuration", "LayoutDuration"))


def fill(optimist: Optimist) -> None:
    """Make the experiments, and run two of them."""

    def model(shift: float, size: int, seed: int) -> np.ndarray:
        return np.random.default_rng(seed).normal(shift, 1.0, (size, 16)).astype(np.float32)

    shifts = {f"step-{place}0k": 0.3 * place for place in range(1, 5)}
    four = optimist.create_experiment("four", [*shifts], metric=FID(reference=(np.zeros(16), np.eye(16))))
    four.run({name: lambda size, seed, shift=shift: model(shift, size, seed) for name, shift in shifts.items()})
    many = [f"generator-{place:03}" for place in range(100)]
    hundred = optimist.create_experiment("hundred", many, metric=Mean(), stop=False, budget=8_000)
    hundred.run({name: lambda size, seed, at=at: model(0.02 * at, size, seed)[:, 0] for at, name in enumerate(many)})
    for number in range(32):
        optimist.create_experiment(f"experiment-{number:02}", ["a", "b", "c"], metric=Mean(), tags=["sweep"])


def opened(context: BrowserContext, url: str, trace: Path | None) -> list[float]:
    """The numbers of `COLUMNS` of one page."""
    page = context.new_page()
    devtools = context.new_cdp_session(page)
    devtools.send("Network.enable")
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.add_init_script(WATCH)
    if trace is not None:
        devtools.send("Profiler.enable")
        devtools.send("Profiler.start")
    sent = list[float]()
    devtools.on("Network.loadingFinished", lambda event: sent.append(event["encodedDataLength"]))
    page.goto(url)
    seen = dict[str, float]()
    while len(seen) < 2:  # by the protocol: what Playwright puts into a page to wait takes as long as the page itself
        time.sleep(0.1)
        found = devtools.send("Runtime.evaluate", {"expression": "window.seen", "returnByValue": True})
        seen = found["result"]["value"]
    metrics = {one["name"]: one["value"] for one in devtools.send("Performance.getMetrics")["metrics"]}
    if trace is not None:
        trace.write_text(json.dumps(devtools.send("Profiler.stop")["profile"]))
    page.close()
    worked = [1000.0 * sum(metrics[name] for name in part) for part in PARTS]
    return [seen["rows"], seen["charts"], *worked, sum(sent) / 1000.0]


def main() -> None:
    """Measure all pages and print a table of medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--trace", type=Path)
    options = parser.parse_args()
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="view-"))
        port = free_port()
        stack.enter_context(process(serve(port, directory), port))
        url = f"http://127.0.0.1:{port}/"
        fill(stack.enter_context(Optimist(url)))
        browser = stack.enter_context(sync_playwright()).chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        header("page", "cache", *COLUMNS)
        for name, path in PAGES.items():
            found: dict[str, list[list[float]]] = {"empty": [], "filled": []}
            for _ in range(options.repeats):
                context = browser.new_context(viewport=VIEW)
                for rows in found.values():
                    rows.append(opened(context, f"{url}{path}", options.trace))
                context.close()
            for cache, rows in found.items():
                line(name, cache, *(f"{statistics.median(column):.0f}" for column in zip(*rows, strict=True)))


if __name__ == "__main__":
    main()
