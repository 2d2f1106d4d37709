"""The gateway process: links, decisions, commits and deliveries wired together.

Imports every room below it; nobody imports it but its own start.
"""
