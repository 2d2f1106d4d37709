"""Value types of the store: rows, columns, subjects, positions, watermarks, errors. Pure; imports ``conf`` alone."""
