"""Direct Get without IO: the request, its messages, the frames of the reply. Imports pure rooms of `delta_store`."""
