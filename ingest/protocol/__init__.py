"""The protocols of the links, without IO: frames, handshakes, interest, addresses, pacing. Imports `conf` only."""
