"""The best mixture by samples: weights from one half, scores from the other, by a family's `Objective`."""
