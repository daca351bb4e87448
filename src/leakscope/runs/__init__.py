"""The run folder: atomic results, resume, executors."""
