"""The contexts of prompts as an ask sends them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from optimist_client.errors import FixError
from optimist_client.validation import is_list, is_tuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from optimist_client.config import ExperimentConfig


def asked(
    config: ExperimentConfig, contexts: ArrayLike | Sequence[ArrayLike] | None, prompts: Sequence[str] | None
) -> bytes | None:
    """The body of an ask in an experiment with this config, as safetensors; None where nothing is routed.

    Raises `FixError` if contexts are given where nothing is routed, or none where prompts are, and unless they are
    finite numbers (n, `config.context`), with a text for each if there are texts.
    """
    if not config.asks.has_contexts:
        if contexts is None and prompts is None:
            return None
        raise FixError(f"{config.name!r} has the goal {config.goal!r}: an ask has a context only with the goal 'route'")
    if contexts is None:
        raise FixError(
            f"{config.name!r} chooses a generator for each prompt: use ask(context=…) with the prompt's embedding of "
            f"{config.context} numbers"
        )
    # Imported here because a program that only reads reports does not need numpy.
    from optimist_client.tensors import TEXTS, encode, pack_texts

    rows = _rows(config.context, contexts)
    if prompts is not None and (isinstance(prompts, str) or len(prompts) != len(rows)):
        raise FixError(f"prompts: expected a list with a text for each of the {len(rows)} contexts")
    texts = {} if prompts is None else {TEXTS: pack_texts([prompt[:2000].replace("\0", " ") for prompt in prompts])}
    return encode({"contexts": rows, **texts})


def _rows(width: int | None, contexts: ArrayLike | Sequence[ArrayLike]) -> NDArray[np.float32]:
    """Contexts (n, width) as the service keeps them, in float32."""
    import numpy as np

    from optimist_client.tensors import as_array

    # A list may hold torch tensors, which numpy alone does not take from every device.
    parts: Sequence[Any] = contexts if is_list(contexts) or is_tuple(contexts) else [contexts]
    arrays = [as_array("context", part) for part in parts]
    shapes = {array.shape for array in arrays}
    if len(shapes) == 1:
        rows = np.stack(arrays) if isinstance(contexts, list | tuple) else arrays[0]
        if rows.ndim == 2 and rows.shape[1] == width:
            with np.errstate(over="ignore"):
                rows = rows.astype(np.float32)
            if not np.isfinite(rows).all():
                raise FixError("context: expected finite numbers in the range of float32")
            return rows
    if not shapes:
        raise FixError("contexts: expected at least one, got none")
    got = " and ".join(map(str, sorted(shapes)))
    raise FixError(f"context: expected {width} numbers for each prompt, got an array of shape {got}")
