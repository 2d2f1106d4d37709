"""The tables: journal, messages, index, limits, time travel, the settle job and SQL."""
