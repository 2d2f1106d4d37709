"""Payloads as typed columns: a stream's schema, what it makes of a payload, and what it lets a table become. Pure."""
