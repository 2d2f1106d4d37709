"""Rules of settling and of liveness in Spark: DataFrame in, DataFrame out. No actions, no IO; imports ``values``."""
