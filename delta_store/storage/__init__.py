"""Local disk, object store, locks and reserve: where files are and who may write. Does IO; may import ``values``."""
