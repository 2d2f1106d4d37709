"""The gateway process: links, decisions, commits and deliveries. Imports any lower room; none imports it."""
