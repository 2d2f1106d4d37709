"""The connections to a hub that are made again whenever they are lost.

IO; may import `protocol`.
"""
