"""Tables as bytes: Arrow record batches in the formats of HTTP and the command line. Imports nothing of ours."""
