"""Direct Get without IO: request, messages, the reply's frames. Imports `jetstream`, pure rooms of `delta_store`."""
