"""From a batch of input graphs to results: schedule, memory, one call for each task."""
