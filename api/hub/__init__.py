"""The embedded nats-server: its configuration, credentials and process.

May import `api.process` and `conf`.
"""
