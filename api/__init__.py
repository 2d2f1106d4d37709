"""All that answers: $JS.API, Direct Get, REST, the `silt` command and the processes that wire the rest together."""
