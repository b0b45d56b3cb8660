"""Chooses the next pick from estimates and open picks, and decides when an experiment ends (decisions.md §3)."""

from optimist.policies.arms import Arm, optimistic, rivals
from optimist.policies.contrasts import contrast, described
from optimist.policies.policy import NAMES, Policy, check_policy, warmup_batches
from optimist.policies.stopping import Decision, Stopping
from optimist.policies.verdicts import deciding_tolerance, explained

__all__ = [
    "NAMES",
    "Arm",
    "Decision",
    "Policy",
    "Stopping",
    "check_policy",
    "contrast",
    "deciding_tolerance",
    "described",
    "explained",
    "optimistic",
    "rivals",
    "warmup_batches",
]
