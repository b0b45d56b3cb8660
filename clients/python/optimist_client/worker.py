"""A worker as a program: the generators of a module, for one experiment, until that ends or the worker is told to.

`optimist worker` is this; schedulers of clusters call `work`.
"""

from __future__ import annotations

import importlib
import signal
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, cast

from optimist_client.errors import FixError
from optimist_client.validation import brief, is_mapping, meant

if TYPE_CHECKING:
    from optimist_client.models.reports import Report

Generators = Mapping[str, Callable[..., Any]]


def work(
    experiment: str,
    generators: str | Generators | Callable[[], Generators],
    url: str,
    *,
    only: Sequence[str] = (),
    embed: str | Callable[..., Any] | None = None,
    **settings: Any,
) -> Report:
    """Sample and tell until the experiment ends. Returns the report.

    generators: functions by the names of their generators, as `Experiment.run` takes them; or a function without
        parameters that returns them, so that models are loaded here; or the place of one, as "module:name". only: the
        names of those that are sampled here; all of them without any. embed: as of `run`, or the place of one.
        settings: others of `run`.

    SIGTERM gives up all open picks and ends the process with code 143, so that schedulers start it again; it is obeyed
    in the main thread of a process. Raises FixError for places where nothing is, and what `run` raises.
    """
    from optimist_client.client import Optimist

    with ending_in_order():
        functions = find(generators) if isinstance(generators, str) else generators
        named: Any = functions if is_mapping(functions) or not callable(functions) else functions()
        if not is_mapping(named):
            raise FixError(
                f"{generators if isinstance(generators, str) else 'generators'}: expected functions by the names of "
                f"their generators, or a function that returns them; got {brief(named)}"
            )
        checked = cast("Generators", named)
        if unknown := [f"{name}{meant(name, checked)}" for name in only if name not in checked]:
            raise FixError(f"only: expected some of {', '.join(checked)}; got {', '.join(unknown)}")
        chosen = {name: function for name, function in checked.items() if not only or name in only}
        rows = find(embed) if isinstance(embed, str) else embed
        with Optimist(url) as optimist:
            return optimist.experiment(experiment).run(chosen, rows, **settings)


def find(spec: str) -> Any:
    """The object that "module:name" names; modules are looked for in the working directory, too. Raises FixError."""
    module, colon, name = spec.partition(":")
    if not (module and colon and name):
        raise FixError(f"expected module:name, such as models:load; got {spec!r}")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        value: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # one that the module itself imports
        raise FixError(f"{spec}: there is no module {error.name!r} in the working directory, nor installed") from None
    for part in name.split("."):
        if not hasattr(value, part):
            raise FixError(f"{spec}: there is no {part!r}{meant(part, dir(value))}")
        value = getattr(value, part)
    return value


@contextmanager
def ending_in_order() -> Generator[None]:
    """Raise SystemExit at the first SIGTERM within the context, so that what is open is given up; later ones are
    ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> NoReturn:
        signal.signal(number, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
