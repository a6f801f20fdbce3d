"""What every room stands on: compiling and dispatch, SIMD, threads, sampling, cones, checks."""
