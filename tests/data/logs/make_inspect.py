"""Makes the logs in `inspect/`, with inspect_ai itself and models that answer by a rule.

Run it in an environment with inspect_ai: `python tests/data/logs/make_inspect.py`.
"""

import random
import shutil
from pathlib import Path

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.model import GenerateConfig, ModelAPI, ModelOutput, modelapi
from inspect_ai.scorer import Score, accuracy, match, mean, scorer, stderr
from inspect_ai.solver import generate

HERE = Path(__file__).parent / "inspect"
SKILLS = {"large": 0.8, "small": 0.5}
QUESTIONS, EPOCHS = 12, 3


@modelapi(name="canned")
def canned():
    class Canned(ModelAPI):
        """A model that is right on a share of the questions, and fails on one question."""

        async def generate(self, input, tools, tool_choice, config: GenerateConfig):
            question = input[-1].text
            number = int(question.split()[-1].rstrip("?"))
            if self.model_name == "small" and number == 7:
                raise RuntimeError("no answer in time")
            luck = random.random()
            is_right = 0.6 * random.Random(question).random() + 0.4 * luck < SKILLS[self.model_name]
            return ModelOutput.from_content(self.model_name, f"{2 * number if is_right else 2 * number + 1}")

    return Canned


@scorer(metrics=[mean(), stderr()])
def brevity():
    async def score(state, target):
        return Score(value=1.0 / len(state.output.completion))

    return score


def main():
    shutil.rmtree(HERE, ignore_errors=True)
    random.seed(0)
    samples = [Sample(id=f"double-{n}", input=f"Twice {n}?", target=f"{2 * n}") for n in range(QUESTIONS)]
    for name, kind in (("large", "eval"), ("small", "json")):
        task = Task(
            dataset=samples,
            solver=generate(),
            scorer=[match(location="exact"), brevity()],
            name="doubles",
            epochs=EPOCHS,
            metrics=[accuracy()],
        )
        (log,) = eval(
            task,
            model=f"canned/{name}",
            log_dir=f"{HERE}",
            log_format=kind,
            fail_on_error=False,
            display="none",
            max_retries=0,
        )
        # What happened in between, and where, is no part of the format that is read.
        whole = read_eval_log(log.location)
        for sample in whole.samples:
            sample.events, sample.attachments = [], {}
            if sample.error is not None:
                sample.error.traceback = sample.error.traceback_ansi = ""
        Path(log.location).unlink()
        write_eval_log(whole, f"{HERE / f'doubles-{name}.{kind}'}")


main()
