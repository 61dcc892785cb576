"""The same work through fairlane and through other job queues, in one run: see README.md."""
