"""The policy on virtual time: traces in, reports out. Runs the scheduler's own code, without a store or a worker."""
