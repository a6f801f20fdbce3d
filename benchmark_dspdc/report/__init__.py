"""Reports of result files: they know the columns of a frame, and no kernel."""
