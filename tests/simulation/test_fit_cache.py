from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from optimist import places
from optimist.simulation.digits.generators import Recipe
from optimist.simulation.digits.world import load, read_fit, write_fit

QUICK = Recipe(network_epochs=1, vae_epochs=1, components=2)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Path:
    """A cache file of the quick recipe."""
    directory = tmp_path_factory.mktemp("quick")
    load(directory, progress=False, recipe=QUICK)
    return directory / "digits.safetensors"


@pytest.fixture
def path(fitted, tmp_path) -> Path:
    """A copy that a test may spoil."""
    copy = tmp_path / fitted.name
    copy.write_bytes(fitted.read_bytes())
    return copy


def test_a_fit_is_reused(path, caplog):
    before = path.stat()
    load(path.parent, progress=False, recipe=QUICK)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert not caplog.records


def test_fitting_again_gives_the_same_tensors(fitted, tmp_path):
    load(tmp_path, progress=False, recipe=QUICK)
    first = read_fit(fitted, QUICK.digest())
    again = read_fit(tmp_path / fitted.name, QUICK.digest())
    assert first.keys() == again.keys()
    for name, tensor in first.items():
        np.testing.assert_allclose(again[name], tensor, rtol=1e-9, atol=1e-12)


def flip(body: bytes) -> bytes:
    return body[:-100] + bytes([body[-100] ^ 1]) + body[-99:]


@pytest.mark.parametrize("damage", [flip, lambda body: body[:-1], lambda body: body[:5], lambda body: b""])
def test_a_damaged_file_is_fitted_again_with_a_word(path, caplog, damage):
    path.write_bytes(damage(path.read_bytes()))
    digits = load(path.parent, progress=False, recipe=QUICK)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(path) in caplog.text
    assert np.isfinite(digits.reference()[1]).all()
    assert read_fit(path, QUICK.digest()) is not None
    assert list(path.parent.iterdir()) == [path]


def test_another_recipe_is_fitted_without_a_word(path, caplog):
    other = Recipe(network_epochs=1, vae_epochs=1, components=3)
    assert "gmm-3" in load(path.parent, progress=False, recipe=other).generators
    assert read_fit(path, other.digest()) is not None
    assert read_fit(path, QUICK.digest()) is None
    assert not caplog.records


@pytest.mark.long
def test_two_may_fit_at_once(tmp_path):
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: load(tmp_path, progress=False, recipe=QUICK), range(2))
    np.testing.assert_array_equal(*(digits.generators["gmm-2"].sample(3, 0) for digits in (one, other)))
    assert [file.name for file in tmp_path.iterdir()] == ["digits.safetensors"]
    assert read_fit(tmp_path / "digits.safetensors", QUICK.digest()) is not None


def test_a_failed_write_leaves_the_old_file_and_nothing_else(path):
    before = path.read_bytes()
    target = path.parent / "taken"
    target.mkdir()
    with pytest.raises(OSError):
        write_fit(target, QUICK.digest(), {"x": np.zeros(3)})
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name, "taken"]
    assert path.read_bytes() == before


def test_arrays_of_any_layout_come_back_as_they_were(tmp_path):
    transposed = np.arange(6.0).reshape(2, 3).T
    write_fit(tmp_path / "x", "digest", {"x": transposed})
    back = read_fit(tmp_path / "x", "digest")
    np.testing.assert_array_equal(back["x"], transposed)


def test_where_fits_are_kept(monkeypatch, tmp_path):
    monkeypatch.delenv("OPTIMIST_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert places.cache_directory() == Path.home() / ".cache" / "optimist"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert places.cache_directory() == tmp_path / "optimist"
    monkeypatch.setenv("OPTIMIST_CACHE", str(tmp_path / "own"))
    assert places.cache_directory() == tmp_path / "own"


def test_progress_goes_to_stderr(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("optimist_client.progress.EVERY", 0.0)
    load(tmp_path, progress=True, recipe=QUICK)
    told = capfd.readouterr()
    assert told.out == ""
    assert "fitting the" in told.err
