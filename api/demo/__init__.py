"""The demonstration: a year of flights, and the past read by NATS, REST and SQL. Imports `delta_store` and `conf`."""
