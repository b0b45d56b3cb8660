"""Chooses the next pick from estimates and open picks, and decides when an experiment ends (rules/stopping.md)."""

# pyright: reportUnusedImport=false

from optimist.policies.arms import Arm, Arms, optimistic, rivals
from optimist.policies.cheapest import Cheapest, LimitOn
from optimist.policies.contrasts import contrast, described
from optimist.policies.mixture_policy import MixturePolicy, Ranges, blend_counts
from optimist.policies.mixture_stopping import decide_mixture, shown_mixture
from optimist.policies.policy import Policy, warmup_batches
from optimist.policies.stopping import Decision, Stopping
from optimist.policies.verdicts import deciding_tolerance, explained
