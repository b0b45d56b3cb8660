"""Chooses the next pick from estimates and open picks, and decides when an experiment ends (decisions.md §3)."""

from optimist.policies.arms import Arm, optimistic
from optimist.policies.policy import NAMES, Policy, check_policy, warmup_batches
from optimist.policies.stopping import Decision, Stopping

__all__ = ["NAMES", "Arm", "Decision", "Policy", "Stopping", "check_policy", "optimistic", "warmup_batches"]
