"""What each access key does one at a time, and temporary files that are written only where there is room."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable

import pytest

from optimist.api.exclusion import Exclusion
from optimist.api.problems import ApiError
from optimist.api.temporary import PIECE, TemporaryFile


def refused(act: Callable[[], object]) -> ApiError:
    with pytest.raises(ApiError) as error:
        act()
    return error.value


def test_each_key_does_a_thing_once_at_a_time():
    exclusion = Exclusion()

    def enter(what: str, key: str) -> None:
        with exclusion.doing(what, key):
            pass

    with exclusion.doing("archive is exported", "one"):
        error = refused(lambda: enter("archive is exported", "one"))
        assert (error.problem.status, error.headers["retry-after"]) == (429, "1")
        assert error.problem.detail.startswith("another archive is exported with the same access key")
        enter("archive is exported", "other")
        enter("archive is imported", "one")
    with pytest.raises(KeyError), exclusion.doing("archive is exported", "one"):
        raise KeyError
    with exclusion.doing("archive is exported", "one"):
        exclusion.keep_out("archive is exported", "one", 7.0)
    assert refused(lambda: enter("archive is exported", "one")).headers["retry-after"] == "7"
    exclusion.keep_out("archive is exported", "one", 0.0)
    enter("archive is exported", "one")


async def test_a_lock_is_of_its_name_alone():
    exclusion = Exclusion()
    async with exclusion.lock("trial", "one"):
        assert exclusion.lock("trial", "one").locked()
        async with asyncio.timeout(10), exclusion.lock("trial", "other"):
            pass
    assert not exclusion.lock("trial", "one").locked()


async def test_a_lock_rests_as_long_as_it_was_held_and_longer():
    exclusion = Exclusion()
    async with exclusion.resting_lock("records", "one", 1.0):
        held = asyncio.get_running_loop().time()
        await asyncio.sleep(0.05)
        held -= asyncio.get_running_loop().time()
    rested = asyncio.get_running_loop().time()
    async with asyncio.timeout(10), exclusion.resting_lock("records", "other", 1.0):
        assert exclusion.lock("records", "one").locked()
    async with asyncio.timeout(10), exclusion.lock("records", "one"):
        assert asyncio.get_running_loop().time() - rested >= -0.9 * held


def test_room_is_looked_for_before_each_piece_of_a_temporary_file():
    asked: list[int] = []

    def check(directory: str, size: int) -> None:
        asked.append(size)
        if sum(asked) > 5 * PIECE:
            raise ApiError(507, "disk-full", "The disk of the service is full")

    with TemporaryFile(check) as file:
        assert file.write(bytes(2 * PIECE + 1)) == 2 * PIECE + 1
        assert asked == [PIECE, PIECE, 1]
        assert refused(lambda: file.write(bytes(9 * PIECE))).problem.status == 507
        assert file.seek(0, 2) == 4 * PIECE + 1
        file.seek(0)
        assert file.read() == bytes(4 * PIECE + 1)


def test_a_temporary_file_that_cannot_be_written_is_a_problem():
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with TemporaryFile(lambda directory, size: None) as file:
        resource.setrlimit(resource.RLIMIT_FSIZE, (PIECE // 2, limits[1]))
        try:
            problem = refused(lambda: file.write(bytes(2 * PIECE))).problem
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (problem.status, problem.detail) == (507, "File too large: try again later")
