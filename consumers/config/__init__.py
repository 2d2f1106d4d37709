"""A consumer's configuration and its pulls: parsed, checked, compared. Pure; imports pure rooms of `delta_store`."""
