"""Derives the blocking and the asyncio client from the same operations, which are written once as coroutines.

The operations do no I/O themselves: they await their transport. A blocking transport never suspends, so that one step
runs a coroutine to its end; with an asyncio transport the caller awaits it. A class that derives from the operations
and from `Blocking` or `Awaiting` gets methods of that kind, with the same signatures and docstrings.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterator
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

P = ParamSpec("P")
T = TypeVar("T")


class Blocking:
    """Makes operations blocking methods. They need no event loop and also work while one is running."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, written in _written(cls):
            setattr(cls, name, written.blocking())


class Awaiting:
    """Makes operations coroutines, and iterations asynchronous generators."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, written in _written(cls):
            setattr(cls, name, written.function)


class operation(Generic[P, T]):
    """Decorates a coroutine function: it becomes a blocking method in `Blocking`, a coroutine in `Awaiting` classes."""

    def __init__(self, function: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        self.function = function

    def blocking(self) -> Callable[Concatenate[Any, P], T]:
        """A blocking function that returns the coroutine's result."""

        @wraps(self.function)
        def call(this: Any, *args: P.args, **kwargs: P.kwargs) -> T:
            return run(self.function(this, *args, **kwargs))

        return call

    @overload
    def __get__(self, this: Blocking, kind: type | None = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, this: Awaiting, kind: type | None = None) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, this: None, kind: type) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]: ...
    def __get__(self, this: Any, kind: type | None = None) -> Callable[..., Any]:
        """Accessed on the class, it is the coroutine function, which operations use to call each other."""
        return self.function if this is None else partial(self.function, this)


class iteration(Generic[P, T]):
    """Decorates an asynchronous generator function: in `Blocking` classes it becomes a generator function."""

    def __init__(self, function: Callable[Concatenate[Any, P], AsyncGenerator[T, None]]) -> None:
        self.function = function

    def blocking(self) -> Callable[Concatenate[Any, P], Generator[T, None, None]]:
        """The generator function that yields what the asynchronous one does, and closes it when it is closed."""

        @wraps(self.function)
        def go_through(this: Any, *args: P.args, **kwargs: P.kwargs) -> Generator[T, None, None]:
            items = self.function(this, *args, **kwargs)
            try:
                while True:
                    try:
                        item = run(anext(items))
                    except StopAsyncIteration:
                        return
                    yield item
            finally:
                run(items.aclose())

        return go_through

    @overload
    def __get__(self, this: Blocking, kind: type | None = None) -> Callable[P, Generator[T, None, None]]: ...
    @overload
    def __get__(self, this: Awaiting, kind: type | None = None) -> Callable[P, AsyncGenerator[T, None]]: ...
    @overload
    def __get__(self, this: None, kind: type) -> Callable[Concatenate[Any, P], AsyncGenerator[T, None]]: ...
    def __get__(self, this: Any, kind: type | None = None) -> Callable[..., Any]:
        """Accessed on the class, it is the asynchronous generator function, see `operation`."""
        return self.function if this is None else partial(self.function, this)


def run(step: Awaitable[T]) -> T:
    """Run a coroutine that never suspends, and return its result. Raises RuntimeError if it suspends."""
    running = step.__await__()
    try:
        next(running)
    except StopIteration as end:
        return end.value
    running.close()
    raise RuntimeError("an operation of the blocking client was suspended")


def _written(kind: type) -> Iterator[tuple[str, operation[..., Any] | iteration[..., Any]]]:
    """The operations and iterations that a class inherits, by name."""
    for name in dir(kind):
        written = inspect.getattr_static(kind, name)
        if isinstance(written, operation | iteration):
            yield name, written
