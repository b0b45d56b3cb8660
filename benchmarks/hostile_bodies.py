"""How long the API is held by large bodies that are wrong in as many places as fit.

Each body goes to a real service, while `/healthz` is asked all the time from another process. "held" is the longest
that it had to wait; "CPU" is the processor time of the API, which is disturbed least by other work; "answer" is the
size of the answer, which names what was wrong.
"""

from __future__ import annotations

import argparse
import http.client
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path

from optimist_client import Optimist

sys.path.append(f"{Path(__file__).parents[1] / 'tests' / 'service'}")
from processes import Service

NAME = "hostile"
NUMBERS, TEXTS = ("0", "1e999", "true", "null", "{}", "[]"), ('"x"', '""', r'"\ud800"')


def filled(head: str, item: str, tail: str, size: int) -> bytes:
    """A list or object that has the item as often as it fits into `size` bytes."""
    count = (size - len(head) - len(tail)) // (len(item) + 1)
    return (head + ",".join([item] * count) + tail).encode()


def named(head: str, item: str, tail: str, size: int) -> bytes:
    """An object with as many different names as fit."""
    count = (size - len(head) - len(tail)) // (len(item) + 11)
    return (head + ",".join(f'"{number:07d}":{item}' for number in range(count)) + tail).encode()


def bodies(size: int) -> Iterator[tuple[str, str, str, Callable[[], bytes]]]:
    """What it is, method and path, and the body."""
    experiments, own = "/v1/experiments", f"/v1/experiments/{NAME}"
    metric = '"metric":{"name":"is","dimension":4}'
    config = f'"name":"a","generators":["a","b"],{metric}'
    routes = {
        "create": ("POST", experiments),
        "change": ("PATCH", own),
        "ask": ("POST", f"{own}/picks"),
        "add": ("POST", f"{own}/generators"),
        "generator": ("PATCH", f"{own}/generators/a"),
        "previews": ("PUT", f"{own}/picks/1/previews"),
        "retract": ("DELETE", f"{own}/picks/1/batch"),
        "blend": ("POST", f"{own}/blend"),
        "upload": ("POST", "/v1/references/r/uploads"),
        "reference": ("POST", "/v1/references?name=r"),
        "tell": ("POST", f"{own}/picks/1/batch?nonce=aa"),
        "append": ("POST", f"{own}/generators/a/batches"),
    }
    for what, (method, path) in routes.items():
        yield f"{what}: unknown fields", method, path, lambda: named("{", "0", "}", size)
        yield f"{what}: a list", method, path, lambda: filled("[", "0", "]", size)
        yield f"{what}: a text", method, path, lambda: b'"' + b"x" * size + b'"'
    lists = [
        ("create", "generators", ["0", '"x"', '""', '"aaaaaaa"']),
        ("create", "prompts", ["0", '"x"', '""']),
        ("create", "tags", ["0", '"x"', '","']),
        ("create", "watch", ["0", '"x"', '{"name":"is"}', '{"name":"kid","q":0}']),
        ("change", "tags", ["0", '"x"', '","']),
        ("ask", "generators", ["0", '"x"', '""']),
        ("ask", "prompts", ["0", '"x"']),
        ("ask", "contexts", ["0", "[]", "[0]", '["x"]']),
        ("previews", "previews", ["0", "{}", '{"place":0,"text":"x"}']),
        ("tell", "features", ["0", '"x"', "[]", "[0]", '["x"]', "{}"]),
        ("tell", "ids", ["0", '"x"', "[0]"]),
        ("append", "features", ["0", "[]", "[0]"]),
        ("reference", "features", ["0", "[]", "[0]"]),
    ]
    for what, field, items in lists:
        before = f"{config}," if what == "create" and field != "generators" else '"name":"a",' * (what == "create")
        for item in items:
            head = f'{{{before}"{field}":['
            yield f"{what}: {field} of {item}", *routes[what], lambda h=head, i=item: filled(h, i, "]}", size)
    for field, item in (("costs", '"x"'), ("costs", "0"), ("embeddings", "0"), ("embeddings", '"x"')):
        head = f'{{{config},"{field}":{{'
        yield f"create: {field} of {item}", *routes["create"], lambda h=head, i=item: named(h, i, "}}", size)
    for field in ("metric", "kernel", "bound_options"):
        rest = config.replace(f",{metric}", "") if field == "metric" else config
        head = f'{{{rest},"{field}":{{"name":"is",' if field == "metric" else f'{{{rest},"{field}":{{'
        yield f"create: {field}, unknown", *routes["create"], lambda h=head: named(h, "0", "}}", size)
    for field in ("name", "policy", "note", "metric", "reference", "tolerance"):
        rest = {"name": config.replace('"name":"a",', ""), "metric": config.replace(f",{metric}", "")}
        head = f'{{{rest.get(field, config)},"{field}":"'
        yield f"create: {field}, long", *routes["create"], lambda h=head: (h + "x" * size + '"}').encode()
    yield "create: contexts nested", *routes["create"], lambda: b'{"name":' + b"[" * (size // 2) + b"]" * (size // 2)


def ask_health(port: int, ends: Event, results: Queue[float]) -> None:
    """Ask for `/healthz` until told to end; then say how long the slowest answer took."""
    worst, connection = 0.0, http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    while not ends.is_set():
        start = time.monotonic()
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        worst = max(worst, time.monotonic() - start)
        time.sleep(0.01)
    results.put(worst)


def processor_time(pid: int) -> float:
    """Seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print one line for each body, the longest first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=10_000_000, help="size of each body")
    parser.add_argument("--only", default="", help="only the bodies with this text in their description")
    given = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as directory:
        service = Service(Path(directory), "--no-scoring").start()
        assert service.process is not None
        pid = service.process.pid
        with Optimist(service.url) as client:
            client.create_experiment(NAME, ["a", "b"], metric="is", dimension=4, previews=4).ask()
        try:
            for what, method, path, make in bodies(given.bytes):
                if given.only not in what:
                    continue
                body, ends, results = make(), multiprocessing.Event(), multiprocessing.Queue()
                asking = multiprocessing.Process(target=ask_health, args=(service.port, ends, results))
                asking.start()
                before = processor_time(pid)
                connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=300)
                try:
                    connection.request(method, path, body, {"content-type": "application/json"})
                    reply = connection.getresponse()
                    answer, status = reply.read(), f"{reply.status}"
                except OSError as error:
                    answer, status = b"", type(error).__name__
                used = processor_time(pid) - before
                ends.set()
                held = results.get()
                asking.join()
                found.append((held, used, what, status, len(answer)))
                print(f"{held:6.2f} s held  {used:6.2f} s CPU  {status}  {len(answer):9,} B  {what}", flush=True)
        finally:
            service.process.terminate()
            service.process.wait()
    print("\nThe longest:")
    for held, used, what, status, size in sorted(found, reverse=True)[:15]:
        print(f"{held:6.2f} s held  {used:6.2f} s CPU  {status}  {size:9,} B  {what}")


if __name__ == "__main__":
    main()
