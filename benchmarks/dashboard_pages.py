"""How fast the dashboard's pages are in a browser: a list of 500 experiments, and an experiment of 100 generators.

    python benchmarks/dashboard_pages.py [--experiments 500] [--generators 100] [--repeats 5]

Each is opened in a fresh tab of one Chromium (the page in its cache) with a window of 1440 × 900: the time from going
there until the first row is shown and all have come, and until the chart of estimates is drawn; the time from a change
of search, order or colours until the next frame is drawn; and how much the page works while nothing changes. A decided
experiment of 4 generators and 3 metrics is opened in a fresh browser, too, and once more: bytes transferred and time.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from optimist.store import start_embedded
from optimist_client import Optimist
from optimist_client.metrics import Mean
from raw import free_port, process

sys.path.append(str(Path(__file__).parents[1] / "tests" / "dashboard"))
from written import write_long_experiment, write_watched_experiment

ROUNDS = 30_000
WAIT = 60_000
REST = 6.0
"""Seconds over which the work at rest is measured: three polls."""
LARGE, DECIDED = "hundred", "decided"
VIEW = {"width": 1440, "height": 900}
LINES = "n => document.querySelectorAll('.line').length >= n"
COME = "n => document.querySelector('.tools [role=status]')?.textContent.startsWith(`${n} of ${n} `)"
SORT = "document.querySelector('.sort').click()"
ROWS = "n => document.querySelectorAll('.standings tbody tr').length >= n"
TYPE = "search.value = '{}'; search.dispatchEvent(new Event('input'))"
CHOOSE = "theme.value = 'dark'; theme.dispatchEvent(new Event('change'))"
DRAWN = "() => document.querySelector('#plot-estimates svg') !== null"


def seconds_of(devtools: CDPSession) -> float:
    """Seconds for which the page's main thread has worked."""
    found = devtools.send("Performance.getMetrics")["metrics"]
    return next(one["value"] for one in found if one["name"] == "TaskDuration")


def opened(page: Page, url: str, conditions: dict[str, tuple[str, int]]) -> dict[str, float]:
    """Milliseconds from the start of a navigation, by the browser's clock, until each condition (an expression and its
    argument) holds."""
    page.goto(url)
    times = dict[str, float]()
    for words, (condition, number) in conditions.items():
        page.wait_for_function(condition, arg=number, timeout=WAIT)
        times[words] = page.evaluate("() => performance.now()")
    return times


def first_views(browser: Browser, url: str, repeats: int) -> None:
    """Print bytes and times of the decided experiment in browsers that have nothing in their caches, and after that."""
    sizes, times = list[int](), dict[str, list[float]]({"first view": [], "from the cache": []})
    works = list[float]()
    for _ in range(repeats):
        context = browser.new_context(viewport=VIEW)
        for name, took in times.items():
            page = context.new_page()
            devtools = context.new_cdp_session(page)
            devtools.send("Network.enable")
            devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
            sent = list[int]()
            devtools.on("Network.loadingFinished", lambda event, sent=sent: sent.append(event["encodedDataLength"]))
            took.append(opened(page, f"{url}/#/e/{DECIDED}", {"charts": (DRAWN, 0)})["charts"])
            works.append(1000 * seconds_of(devtools))
            page.wait_for_timeout(500)
            if name == "first view":
                sizes.append(sum(sent))
            page.close()
        context.close()
    print(f"decided experiment, median of {repeats}: {statistics.median(sizes):,.0f} bytes transferred", flush=True)
    for name, took in times.items():
        said(name, took)
    said("processor time of the page's main thread, from the cache", works[1::2])


def changed(page: Page, act: str) -> float:
    """Milliseconds from a change, made by a script, until the frame after it is drawn."""
    frame = "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
    elements = "const [search, theme] = ['search', 'theme'].map(id => document.getElementById(id))"
    timed = f"const start = performance.now(); {act}; await {frame}; return performance.now() - start"
    return page.evaluate(f"async () => {{ {elements}; {timed}; }}")


def at_rest(page: Page, devtools: CDPSession) -> float:
    """The share of one core that the page takes while it polls and nothing changes."""
    page.wait_for_timeout(2000)
    before, start = seconds_of(devtools), time.perf_counter()
    page.wait_for_timeout(1000 * REST)
    return (seconds_of(devtools) - before) / (time.perf_counter() - start)


def said(name: str, times: list[float]) -> None:
    """Print the median of some times."""
    print(f"  {name}: {statistics.median(times):.0f} ms (at most {max(times):.0f})", flush=True)


def main() -> None:
    """Measure both pages and print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=500)
    parser.add_argument("--generators", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pages-")))
        redis = stack.enter_context(start_embedded(directory))
        asyncio.run(write_long_experiment(redis.url, LARGE, ROUNDS, options.generators))
        asyncio.run(write_watched_experiment(redis.url, DECIDED, 4))
        port = free_port()
        serve = [sys.executable, "-m", "optimist.cli", "serve", f"--port={port}", f"--redis-url={redis.url}"]
        stack.enter_context(process(serve, port))
        url = f"http://127.0.0.1:{port}"
        optimist = stack.enter_context(Optimist(url))
        for number in range(options.experiments - 2):
            tags = [f"week-{number % 20}", "sweep"]
            optimist.create_experiment(f"experiment-{number:03d}", ["a", "b", "c"], metric=Mean(), tags=tags)
        browser = stack.enter_context(sync_playwright()).chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        first_views(browser, url, options.repeats)
        context = browser.new_context(viewport=VIEW)
        pages = {
            f"list of {options.experiments} experiments": (
                "/",
                {"first row": (LINES, 1), "all have come": (COME, options.experiments)},
                {
                    "search for a name": TYPE.format("experiment-4"),
                    "no search": TYPE.format(""),
                    "sort by name": SORT,
                    f"show all {options.experiments}": "document.querySelector('.more').click()",
                    f"sort all {options.experiments} by name": SORT,
                },
            ),
            f"experiment of {options.generators} generators": (
                f"/#/e/{LARGE}",
                {"last row of the standings": (ROWS, options.generators), "chart of estimates": (DRAWN, 0)},
                {
                    "without intervals in the chart": "document.getElementById('estimates-bands').click()",
                    "dark colours (all is drawn again)": CHOOSE,
                },
            ),
        }
        for words, (path, conditions, actions) in pages.items():
            times: dict[str, list[float]] = {name: [] for name in (*conditions, *actions)}
            rests = list[float]()
            for repeat in range(options.repeats + 1):
                page = context.new_page()
                devtools = context.new_cdp_session(page)
                devtools.send("Performance.enable")
                found = opened(page, url + path, conditions)
                page.wait_for_timeout(500)
                found |= {name: changed(page, act) for name, act in actions.items()}
                if repeat:  # the first one fills the cache
                    for name, took in found.items():
                        times[name].append(took)
                if repeat == options.repeats:
                    rests.append(at_rest(page, devtools))
                page.evaluate("() => localStorage.clear()")
                page.close()
            print(f"{words}, median of {options.repeats}", flush=True)
            for name, all_of_it in times.items():
                said(name, all_of_it)
            print(f"  work while nothing changes: {rests[0]:.1%} of a core", flush=True)


if __name__ == "__main__":
    main()
