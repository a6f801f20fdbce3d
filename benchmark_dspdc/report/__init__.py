"""Tables and figures from result files; knows nothing but columns of a frame."""
