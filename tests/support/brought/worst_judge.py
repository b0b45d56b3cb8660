"""What simulations know of `worst_goal.Worst`: the worst generator is right."""

from optimist.simulation.judges.best import BestJudge


class WorstJudge(BestJudge):
    goal = "worst"

    @property
    def lower_is_better(self) -> bool:
        return not super().lower_is_better
