"""The Delta tables: journal and messages, their index, limits, reads of the past, settling, SQL. Imports ``conf``."""
