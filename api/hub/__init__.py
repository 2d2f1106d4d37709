"""The embedded nats-server: its configuration, logins and process. Imports `api.process`, `delta_store` and `conf`."""
