"""Makes the logs in `lm-eval/`, with lm-eval itself and models that answer by a rule.

Run it in an environment with lm-eval and torch: `python tests/data/logs/make_lm_eval.py`.
"""

import json
import random
import shutil
import tempfile
from pathlib import Path

import lm_eval
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager

HERE = Path(__file__).parent
QUESTIONS = 24
SKILLS = {"acme/large-7b": 0.8, "acme/small-1b": 0.5}
SUMS = """
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: FOLDER/sums.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["Q:"]}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
filter_list:
  - name: strict-match
    filter: [{function: regex, regex_pattern: "is (-?[0-9]+)[.]"}, {function: take_first}]
  - name: flexible-extract
    filter: [{function: regex, regex_pattern: "(-?[0-9]+)", group_select: -1}, {function: take_first}]
"""
CITIES = """
task: cities
dataset_path: json
dataset_kwargs: {data_files: {test: FOLDER/cities.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: ["Rome", "Oslo", "Lima"]
doc_to_target: "{{place}}"
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
  - {metric: acc_norm, aggregation: mean, higher_is_better: true}
"""


class Canned(LM):
    """A model that is right on a share of the questions; each question is as hard for all models."""

    def __init__(self, name, answers):
        super().__init__()
        self._skill, self._name, self._answers = SKILLS[name], name, answers

    def _is_right(self, question):
        luck = random.Random(f"{self._name} {question}").random()
        return 0.6 * random.Random(question).random() + 0.4 * luck < self._skill

    def generate_until(self, requests, disable_tqdm=False):
        return [self._said(one.args[0]) for one in requests]

    def _said(self, question):
        right = self._answers[question]
        number = right if self._is_right(question) else right + 1
        return f"That is {number}." if random.Random(f"form {self._name} {question}").random() < 0.8 else f"{number}"

    def loglikelihood(self, requests, disable_tqdm=False):
        return [(self._likelihood(*one.args), False) for one in requests]

    def _likelihood(self, question, choice):
        right = ["Rome", "Oslo", "Lima"][self._answers[question]]
        return -1.0 if (choice.strip() == right) == self._is_right(question) else -2.0

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        raise NotImplementedError


def main():
    shutil.rmtree(HERE / "lm-eval", ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        sums = [{"question": f"Q: {n} + {3 * n}?", "answer": 4 * n} for n in range(QUESTIONS)]
        cities = [{"question": f"City {n} of three?", "place": n % 3} for n in range(QUESTIONS)]
        answers = {one["question"]: one["answer"] for one in sums} | {one["question"]: one["place"] for one in cities}
        for name, rows, config in (("sums", sums, SUMS), ("cities", cities, CITIES)):
            Path(folder, f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
            Path(folder, f"{name}.yaml").write_text(config.replace("FOLDER", folder))
        for name in SKILLS:
            tracker = EvaluationTracker(output_path=f"{HERE / 'lm-eval'}")
            found = lm_eval.simple_evaluate(
                Canned(name, answers),
                model_args=f"pretrained={name}",
                tasks=["sums", "cities"],
                task_manager=TaskManager(include_path=folder),
                log_samples=True,
                evaluation_tracker=tracker,
                bootstrap_iters=0,
            )
            samples = found.pop("samples")
            found.pop("pretty_env_info", None)
            tracker.general_config_tracker.model_name = name
            tracker.general_config_tracker.model_name_sanitized = name.replace("/", "__")
            tracker.save_results_aggregated(results=found, samples=samples)
            for task in samples:
                tracker.save_results_samples(task_name=task, samples=samples[task])


main()
