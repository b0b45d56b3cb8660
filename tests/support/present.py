"""What is there, oldest first: what lists show, from the places of the index."""

from __future__ import annotations

from optimist.store import Store


async def experiments(store: Store) -> list[str]:
    """The names of all experiments."""
    names = [place.name for place in await store.newest()][::-1]
    assert names == await store.indexed()
    return [name for name in names if await store.config(name) is not None]


async def references(store: Store) -> dict[str, str]:
    """The descriptions of all references by name."""
    names = [place.name for place in await store.references.newest()][::-1]
    metas = await store.references.metas(names)
    return {name: meta for name, meta in zip(names, metas, strict=True) if meta is not None}
