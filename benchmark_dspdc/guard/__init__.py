"""The regression check: baselines, comparisons, paired runs, trends."""
