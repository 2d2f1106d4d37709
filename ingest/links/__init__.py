"""The connections to a hub, made again whenever they are lost. IO; imports `ingest.protocol` and `conf`."""
