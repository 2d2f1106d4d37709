"""What each process of ours does alike: arguments, log, the errors that leave it, children that end with it.

Imports no other room of `api`.
"""
