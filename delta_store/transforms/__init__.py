"""DataFrame in, DataFrame out: the rules of settling and of liveness as Spark sees them. No actions, no IO."""
