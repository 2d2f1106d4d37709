"""The demonstration: flights of a year in, questions about the past out, by three ways that must agree."""
