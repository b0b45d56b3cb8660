"""Makes the pictures of the README and the gallery: the dashboard at the end of demos, in a real browser.

    python docs/generate/pictures.py [METRIC …]

Needs Chromium: that of `playwright install chromium`, or one on PATH.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from optimist_client import Optimist

METRICS = ("fid", "is", "rke", "conditional-vendi")
FOLDER = Path(__file__).parents[1] / "pictures"
SIZE = {"width": 1280, "height": 1100}
MINUTES = 10


def picture(browser: Browser, metric: str) -> None:
    """Run the demo of a metric, and take the picture of its experiment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url, name = f"http://127.0.0.1:{port}", f"digits-{metric}-0"
    demo = subprocess.Popen(
        [sys.executable, "-m", "optimist.cli", "demo", f"--metric={metric}", f"--port={port}", "--keep"]
    )
    try:
        with Optimist(url, patience=120.0) as client:
            deadline = time.monotonic() + 60 * MINUTES
            while not (
                name in client.experiments() and (report := client.experiment(name).report()).ended and report.scored
            ):
                if demo.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"the demo of {metric} did not come to an end")
                time.sleep(0.5)
        page = browser.new_page(viewport=SIZE, device_scale_factor=1.5)
        page.goto(f"{url}/#/e/{name}")
        page.wait_for_selector("svg")
        page.wait_for_timeout(2500)
        page.screenshot(path=FOLDER / f"{metric}.png")
        page.close()
    finally:
        demo.send_signal(signal.SIGTERM)
        demo.wait(30)


def main() -> None:
    """Make the pictures of the metrics that are named, or of all."""
    FOLDER.mkdir(exist_ok=True)
    found = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for metric in sys.argv[1:] or METRICS:
            picture(browser, metric)
            print(f"{metric}: {FOLDER / metric}.png")
        browser.close()


if __name__ == "__main__":
    main()
