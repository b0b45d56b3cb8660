"""The best mixture by samples: weights from one half, scores from the other; a family computes an `Objective` for
it."""
