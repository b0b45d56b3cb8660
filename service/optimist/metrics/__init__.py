"""Computation of metrics, in torch: streaming statistics, scores, influences and bounds, by family. No I/O."""
